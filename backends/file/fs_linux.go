package file

import "golang.org/x/sys/unix"

// checkLocal refuses a file system whose locks may be this machine's alone while others use the same files. FUSE is
// refused with them: behind it may be sshfs, virtiofs or a local disk, and nothing tells which.
func (d *dir) checkLocal() error {
	var st unix.Statfs_t
	_, err := retry(func() (struct{}, error) { return struct{}{}, unix.Fstatfs(d.fd(), &st) })
	if err != nil {
		return explain("look at the file system of", d.path, err)
	}
	if networkMagic(uint32(st.Type)) {
		return explain("use the directory", d.path, errNetwork)
	}
	return nil
}

func networkMagic(magic uint32) bool {
	switch magic {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.V9FS_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.NCP_SUPER_MAGIC,
		unix.OCFS2_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC,
		0x01161970, // GFS2
		0x0bd00bd0: // Lustre
		return true
	}
	return false
}
