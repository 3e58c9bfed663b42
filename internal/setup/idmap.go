package setup

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryIDMap makes an idmapped copy of the mount that dir is on and drops it: the
// copy is attached nowhere, so nobody sees it, and it ends with its descriptor.
// The ids come from the user namespace of a child that only waits. The error is
// EINVAL when the file system doesn't support it.
func tryIDMap(dir string) error {
	cmd := exec.Command("cat") // ends with its input, so also with this process
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1_000_000, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("user namespace: %w", notEINVAL(err))
	}
	defer func() {
		stdin.Close()
		_ = cmd.Wait() // its exit code means nothing
	}()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", notEINVAL(err))
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr)
}

// notEINVAL hides the one error number that speaks of the file system.
func notEINVAL(err error) error {
	return fmt.Errorf("%v", err)
}
