package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Device is a device node as the kernel knows it.
type Device struct {
	Block        bool
	Major, Minor int64 // Minor AnyMinor: all of the major number
}

// AnyMinor stands for all minor numbers.
const AnyMinor = -1

// everyone are the devices that any program needs and that say nothing of the machine:
// null, zero, full, random, urandom, tty, ptmx and the pseudo terminals.
var everyone = []Device{
	{Major: 1, Minor: 3}, {Major: 1, Minor: 5}, {Major: 1, Minor: 7}, {Major: 1, Minor: 8}, {Major: 1, Minor: 9},
	{Major: 5, Minor: 0}, {Major: 5, Minor: 2}, {Major: 136, Minor: AnyMinor},
}

// OnlyDevices lets the processes of a group open these device nodes, what any program
// needs besides, and no other. It is idempotent.
func (t *Tree) OnlyDevices(group string, allowed []Device) error {
	allowed = append(everyone[:len(everyone):len(everyone)], allowed...)
	if t.version == V2 {
		return attachFilter(filepath.Join(t.roots[0], group), filterProgram(allowed))
	}
	for _, root := range t.roots {
		if dir := filepath.Join(root, group); exists(dir, "devices.deny") {
			return onlyDevicesV1(dir, allowed)
		}
	}
	return fmt.Errorf("cgroup: this kernel has no devices controller")
}

// onlyDevicesV1 writes the rules of the devices controller, whose form is described in the
// kernel's Documentation/admin-guide/cgroup-v1/devices.rst.
func onlyDevicesV1(dir string, allowed []Device) error {
	if err := writeText(dir, "devices.deny", "a"); err != nil {
		return err
	}
	for _, d := range allowed {
		if err := writeText(dir, "devices.allow", d.rule()); err != nil {
			return err
		}
	}
	return nil
}

// rule is "c 1:3 rw". Nobody may make nodes.
func (d Device) rule() string {
	kind, minor := "c", "*"
	if d.Block {
		kind = "b"
	}
	if d.Minor != AnyMinor {
		minor = strconv.FormatInt(d.Minor, 10)
	}
	return fmt.Sprintf("%s %d:%s rw", kind, d.Major, minor)
}

// attachFilter has the kernel ask the program whenever a process of the group at dir opens
// a device. One that is attached already is replaced.
func attachFilter(dir string, program []instruction) error {
	group, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	defer group.Close()
	loaded, err := loadProgram(program)
	if err != nil {
		return fmt.Errorf("cgroup: the kernel takes no device filter: %w", err)
	}
	defer loaded.Close() // attached, it lives as long as the group
	if err := attachProgram(group, loaded); err != nil {
		return fmt.Errorf("cgroup: the device filter of %s: %w", dir, err)
	}
	return nil
}
