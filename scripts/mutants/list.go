package main

type mutant struct {
	name  string
	edits []edit
}

type edit struct{ file, old, new string }

const (
	owedFile   = "election/owed.go"
	queueFile  = "election/queue.go"
	renewFile  = "election/renew.go"
	termFile   = "election/term.go"
	endFile    = "election/end.go"
	entryFile  = "backends/memory/entry.go"
	guardModel = "election/sim_guard_test.go"
)

// mutants are the ways in which the protocol was broken when it was designed, by the numbers of its rules. Those of the
// guard's own part break the simulation's model of it: the real one has tests of its own.
func mutants() []mutant {
	return []mutant{
		{"deadline counted from the reply", []edit{{renewFile,
			"c.extend(c.cfg.Timing.Deadline(a.sent))", "c.extend(c.cfg.Timing.Deadline(now))"}}},
		{"observation stamped when the read was sent", []edit{
			{termFile, "	viewing      bool\n", "	viewing      bool\n	lookSent boottime.Time\n"},
			{queueFile, "	c.viewing = true\n", "	c.viewing = true\n	c.lookSent = c.Clock.Now()\n"},
			{queueFile, "	c.observe(m.view.Record, m.view.Version, m.view.Unreadable != nil)\n",
				"	before := c.versions\n	c.observe(m.view.Record, m.view.Version, m.view.Unreadable != nil)\n	if c.versions != before {\n		c.seenAt = c.lookSent\n	}\n"}}},
		{"released before the tree is gone", []edit{{termFile,
			"	c.log.Info(\"ended\", ", "	if c.state == leading || c.state == draining {\n		c.running, c.final = false, true\n		c.release()\n	}\n	c.log.Info(\"ended\", "}}},
		{"rule 1: started before T was promised", []edit{{termFile, "	case !c.promised:\n", "	case false:\n"}}},
		{"rule 1: a late start is not refused", []edit{
			{termFile, "	case c.armed && now.Before(c.deadline.Term):\n", "	case c.armed:\n"},
			{guardModel, "	if g.lapsed || !g.p.s.now().Before(d.Term) {\n", "	if false {\n"}}},
		{"rule 2: no silence", []edit{{owedFile,
			"		until = c.seenAt.Add(Slack(c.record.Owe))\n", ""}}},
		{"rule 3: a lower beat is no news", []edit{{queueFile,
			"	if r != nil {\n		c.known = r\n",
			"	if r != nil && c.seenAny && c.record != nil && r.Beat <= c.record.Beat {\n		c.seenVersion = v\n		return\n	}\n	if r != nil {\n		c.known = r\n"}}},
		{"rule 4: owe limited to the own, shorter TTL", []edit{{owedFile,
			"r.Owe, a.promised = mayStart.Sub(now), false", "r.Owe, a.promised = min(mayStart.Sub(now), r.TTL), false"}}},
		{"rule 4: owe dropped by who gives up on TERM", []edit{{endFile,
			"t.Final(c.begun, c.Clock.Now())", "t.Final(true, c.Clock.Now())"}}},
		{"rule 4: owe dropped in the guard's crash release", []edit{{guardModel,
			"term.Final(begun, p.s.now())", "term.Final(begun || true, p.s.now())"}}},
		{"rule 5: an earlier attempt counts from the last send", []edit{{renewFile,
			"			c.committed(v.Record.Beat, v.Version)\n", "			c.tries[v.Record.Beat] = c.tries[c.beats]\n			c.committed(v.Record.Beat, v.Version)\n"}}},
		{"rule 7: a lapsed term starts again", []edit{{endFile,
			"	case over:\n		c.release()\n", "	case over:\n		c.state, c.armed, c.promised = waiting, false, false\n		c.beat()\n"}}},
		{"rule 8: evicted without a compare", []edit{{entryFile,
			"		if err := h.unchanged(seen); err != nil {\n			return err\n		}\n		h.client.store.drop(h.queue, sl, h)\n		return nil\n	})\n}\n\nfunc (h *entry) Remove",
			"		h.client.store.drop(h.queue, sl, h)\n		return nil\n	})\n}\n\nfunc (h *entry) Remove"}}},
		{"rule 8: any waiter evicts", []edit{
			{queueFile, "return c.place == 1 && c.head != nil", "return c.head != nil"},
			{entryFile, "		case h.queue.place(h.slot) != 1:\n", "		case false:\n"}}},
		{"rule 8: a head that has not acquired is evicted", []edit{
			{queueFile, "!c.head.Foreign && c.record.Mine(c.head.Token)", "!c.head.Foreign && c.record != nil"}}},
		{"rule 9: a dead head stays", []edit{{queueFile,
			"return message{err: entry.Remove(ctx, head, version)}", "_, _, _ = entry, head, version\n		return message{err: backends.ErrConflict}"}}},
		{"rule 11: allowed to start outlives its term", []edit{{guardModel,
			"	g.term, g.armed, g.begun, g.lapsed, g.handing = t, true, false, false, false\n", "	g.term, g.armed, g.lapsed, g.handing = t, true, false, false\n"}}},
		{"rule 13: an absent record owes nothing", []edit{{owedFile,
			" && c.emptyAtEntry && c.memory.Token == 0 && !c.foreign && c.known == nil", ""}}},
	}
}
