package election

// The life of a candidate. A term needs a new entry, so a campaign that goes on after a lost lease passes through
// entering again.
type state int

const (
	entering  state = iota // Enter is under way, or is about to be tried again
	queued                 // in the queue, not next in line
	next                   // next in line, or behind a foreign holder: observing the leader
	acquiring              // head of the queue, or evicting the head: the record is being taken
	waiting                // the record is ours; waiting out what predecessors are owed, then preparing to start
	leading                // a child may run
	draining               // we were asked to stop, the child has the signal, renewals go on
	over                   // the deadline came and TERM was sent: never to be extended again
	lost                   // the lease is definitely another's: KILL was sent
	releasing              // the tree is dead, the term is being given back
	leaving                // withdrawing the entry
	done
	numStates
)

func (s state) String() string {
	return [...]string{"entering", "queued", "next", "acquiring", "waiting", "leading", "draining", "over", "lost",
		"releasing", "leaving", "done", "?"}[s]
}

// What a candidate reacts to: answers of the store, what its watch saw, reports of the guard, signals, and timers.
type event int

const (
	// Answers.
	evEntered event = iota
	evViewed
	evTaken // Acquire or Evict
	evRemoved
	evBeaten
	evKept
	evPrepared
	evReleased
	evLeft
	// The watch.
	evChanged
	evSeen
	evGone
	// The guard.
	evStarted
	evFailed
	evExited
	evLapsed // also by our own timer
	evRefused
	evTreeGone
	evGuardDied
	// Signals.
	evSignal
	// Timers, in the order in which those that are due at once are handled.
	evLapse
	evWait
	evStop
	evKeep
	evEnter
	evLook
	evSilence
	evStart
	evBeat
	evRestart
	evHold
	evRelease
	evGiveUp
	numEvents

	firstTimer = evLapse
)

func (e event) String() string {
	return [...]string{"entered", "viewed", "taken", "removed", "beaten", "kept", "prepared", "released", "left",
		"changed", "seen", "gone", "started", "failed", "exited", "lapsed", "refused", "tree gone", "guard died",
		"signal", "lapse", "wait", "stop", "keep", "enter", "look", "silence", "start", "beat", "restart", "hold",
		"release", "give up", "?"}[e]
}

// handler reacts to one event in one state. none is for pairs in which there is nothing to do: an answer that came too
// late to matter, a timer that a change of state has made moot. A test holds that no pair is left out.
type handler func(*campaign, message)

func none(*campaign, message) {}

// table is the whole behaviour. A row is an event, the columns are the states in their order.
//
//	queue  ── head's place free ──► acquiring ── written ──► waiting ── owed time over, prepared ──► leading
//	  ▲                                                        │ ▲                                    │  │
//	  └──────────── entry gone, nothing was started ◄──────────┘ └ renewals                 signal ◄──┘  │ deadline,
//	                                                                                          ▼          ▼ loss
//	done ◄── leaving ◄── releasing ◄──────────────── tree gone ◄─────────────────────────  draining   over, lost
func table() *[numEvents][numStates]handler {
	type c = campaign
	var (
		_______ = handler(none)
		entered = (*c).entered
		placed  = (*c).placed
		settle  = (*c).settle
		owned   = (*c).owned
		taken   = (*c).taken
		removed = (*c).removed
		beaten  = (*c).beaten
		kept    = (*c).kept
		look    = (*c).lookNow
		seen    = (*c).seen
		reenter = (*c).entryGone
		lose    = (*c).lose
		exited  = (*c).exited
		lapse   = (*c).lapse
		gone    = (*c).treeGone
		early   = (*c).signalEarly
		keep    = (*c).keep
		beat    = (*c).beatNow
		release = (*c).releaseNow
		left    = (*c).left
		giveUp  = (*c).giveUp
		ranOut  = (*c).waitRanOut
		ranLate = (*c).waitRanOutLate
	)
	return &[numEvents][numStates]handler{
		//             entering   queued      next        acquiring   waiting     leading     draining    over        lost        releasing   leaving     done
		evEntered:   {entered, _______, _______, _______, _______, _______, _______, _______, _______, _______, (*c).enteredLate, _______},
		evViewed:    {_______, placed, placed, settle, owned, owned, owned, owned, _______, (*c).releaseViewed, _______, _______},
		evTaken:     {_______, _______, _______, taken, _______, _______, _______, _______, _______, _______, _______, _______},
		evRemoved:   {_______, removed, removed, removed, _______, _______, _______, _______, _______, _______, _______, _______},
		evBeaten:    {_______, _______, _______, _______, beaten, beaten, beaten, beaten, _______, _______, _______, _______},
		evKept:      {_______, kept, kept, kept, kept, kept, kept, kept, _______, _______, _______, _______},
		evPrepared:  {_______, _______, _______, _______, (*c).preparedHost, _______, _______, _______, _______, _______, _______, _______},
		evReleased:  {_______, _______, _______, _______, _______, _______, _______, _______, _______, (*c).released, _______, _______},
		evLeft:      {_______, _______, _______, _______, _______, _______, _______, _______, _______, _______, left, _______},
		evChanged:   {_______, look, look, _______, _______, _______, _______, _______, _______, _______, _______, _______},
		evSeen:      {_______, seen, seen, seen, _______, _______, _______, _______, _______, _______, _______, _______},
		evGone:      {_______, reenter, reenter, reenter, lose, lose, lose, lose, _______, _______, _______, _______},
		evStarted:   {_______, _______, _______, _______, _______, (*c).started, (*c).started, _______, _______, _______, _______, _______},
		evFailed:    {_______, _______, _______, _______, _______, (*c).startFailed, (*c).startFailed, (*c).startFailed, (*c).startFailed, _______, _______, _______},
		evExited:    {_______, _______, _______, _______, _______, exited, exited, exited, exited, _______, _______, _______},
		evLapsed:    {_______, _______, _______, _______, lapse, lapse, lapse, _______, _______, _______, _______, _______},
		evRefused:   {_______, _______, _______, _______, lapse, lapse, lapse, _______, _______, _______, _______, _______},
		evTreeGone:  {_______, _______, _______, _______, (*c).guardGone, gone, gone, gone, gone, _______, _______, _______},
		evGuardDied: {_______, _______, _______, _______, (*c).guardGone, gone, gone, gone, gone, _______, _______, _______},
		evSignal:    {early, early, early, (*c).signalAcquiring, (*c).signalWaiting, (*c).signalLeading, (*c).signalDraining, (*c).signalEnding, (*c).signalEnding, (*c).signalReleasing, _______, _______},
		evLapse:     {_______, _______, _______, _______, lapse, lapse, lapse, _______, _______, _______, _______, _______},
		evWait:      {ranOut, ranOut, ranOut, ranOut, ranOut, _______, _______, ranLate, _______, ranLate, ranLate, _______},
		evStop:      {_______, _______, _______, _______, _______, _______, (*c).stopTimedOut, _______, _______, _______, _______, _______},
		evKeep:      {_______, keep, keep, keep, keep, keep, keep, keep, _______, _______, _______, _______},
		evEnter:     {(*c).enterNow, _______, _______, _______, _______, _______, _______, _______, _______, _______, _______, _______},
		evLook:      {_______, look, look, look, look, look, look, look, _______, look, _______, _______},
		evSilence:   {_______, (*c).silence, (*c).silence, _______, _______, _______, _______, _______, _______, _______, _______, _______},
		evStart:     {_______, _______, _______, _______, (*c).startNow, _______, _______, _______, _______, _______, _______, _______},
		evBeat:      {_______, _______, _______, _______, beat, beat, beat, beat, _______, _______, _______, _______},
		evRestart:   {_______, _______, _______, _______, _______, (*c).restart, _______, _______, _______, _______, _______, _______},
		evHold:      {_______, _______, _______, _______, _______, (*c).held, _______, _______, _______, _______, _______, _______},
		evRelease:   {_______, _______, _______, _______, _______, _______, _______, _______, _______, release, _______, _______},
		evGiveUp:    {_______, _______, _______, _______, _______, _______, _______, _______, _______, giveUp, _______, _______},
	}
}
