package cgroup

import (
	"encoding/binary"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instruction of an eBPF program: see the kernel's Documentation/bpf/standardization/
// instruction-set.rst.
type instruction struct {
	op  uint8
	dst uint8
	src uint8
	off int16
	imm int32
}

// Operations that the filter needs.
const (
	opLoad    = 0x61 // dst = *(u32 *)(src + off)
	opMove    = 0xb7 // dst = imm
	opAnd     = 0x57 // dst &= imm
	opJumpNot = 0x55 // if dst != imm: skip off instructions
	opJumpSet = 0x45 // if dst & imm: skip off instructions
	opExit    = 0x95 // return register 0
)

// What a program for devices is given: struct bpf_cgroup_dev_ctx in linux/bpf.h.
const (
	fieldAccess = 0 // what is asked for in the upper half, the node's type in the lower
	fieldMajor  = 4
	fieldMinor  = 8

	typeBlock = 1
	typeChar  = 2

	accessMknod = 1 << 16
)

// filterProgram returns 1 for the devices that are allowed, and 0 for all others and for
// whoever wants to make a node.
func filterProgram(allowed []Device) []instruction {
	const kind, major, minor, context = 2, 3, 4, 1
	p := []instruction{
		{op: opLoad, dst: kind, src: context, off: fieldAccess},
		{op: opJumpSet, dst: kind, imm: accessMknod, off: int16(0)}, // to the end, below
		{op: opAnd, dst: kind, imm: 0xffff},
		{op: opLoad, dst: major, src: context, off: fieldMajor},
		{op: opLoad, dst: minor, src: context, off: fieldMinor},
	}
	for _, d := range allowed {
		tests := []instruction{{op: opJumpNot, dst: kind, imm: typeChar}, {op: opJumpNot, dst: major, imm: int32(d.Major)}}
		if d.Block {
			tests[0].imm = typeBlock
		}
		if d.Minor != AnyMinor {
			tests = append(tests, instruction{op: opJumpNot, dst: minor, imm: int32(d.Minor)})
		}
		for i := range tests {
			tests[i].off = int16(len(tests) - i + 1) // past the other tests and the answer
		}
		p = append(append(p, tests...), instruction{op: opMove, imm: 1}, instruction{op: opExit})
	}
	p[1].off = int16(len(p) - 2)
	return append(p, instruction{op: opMove, imm: 0}, instruction{op: opExit})
}

// encode is the form that the kernel takes.
func encode(p []instruction) []byte {
	var b []byte
	for _, i := range p {
		b = append(b, i.op, i.src<<4|i.dst)
		b = binary.NativeEndian.AppendUint16(b, uint16(i.off))
		b = binary.NativeEndian.AppendUint32(b, uint32(i.imm))
	}
	return b
}

// loadProgram gives the kernel a program for devices (bpf(2)).
func loadProgram(p []instruction) (*os.File, error) {
	code, license := encode(p), []byte("GPL\x00")
	// the beginning of union bpf_attr for BPF_PROG_LOAD
	attr := struct {
		kind, count       uint32
		code, license     uint64
		logLevel, logSize uint32
		log               uint64
	}{kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(p))}
	attr.code, attr.license = uint64(uintptr(unsafe.Pointer(&code[0]))), uint64(uintptr(unsafe.Pointer(&license[0])))
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	if errno != 0 {
		return nil, errno
	}
	return os.NewFile(fd, "device filter"), nil
}

// attachProgram attaches a program to a group.
func attachProgram(group, program *os.File) error {
	// the beginning of union bpf_attr for BPF_PROG_ATTACH
	attr := struct{ target, program, kind, flags uint32 }{uint32(group.Fd()), uint32(program.Fd()), unix.BPF_CGROUP_DEVICE, 0}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_ATTACH, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return nil
}
