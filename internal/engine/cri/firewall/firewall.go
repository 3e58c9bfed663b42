// Package firewall closes a network namespace against whoever comes from outside, by the
// programs that the machine has for it.
package firewall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Program finds a program of the administrator, whose directory a service's PATH may
// lack; empty: it isn't there.
func Program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin/", "/sbin/", "/usr/local/sbin/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path
		}
	}
	return ""
}

// ErrNone says that the machine has no program to close a namespace with.
var ErrNone = errors.New("neither iptables-restore nor nft is on this machine")

// step is a program and what it reads.
type step struct{ argv, input string }

// CloseInbound lets into the network namespace of the calling thread only what comes by
// its own loopback, what answers something sent from there, and what is for one of the
// TCP ports. It replaces what an earlier call did, all at once.
func CloseInbound(ctx context.Context, ports []uint16) error {
	steps, err := inbound(Program, ports)
	if err != nil {
		return err
	}
	for _, s := range steps {
		argv := strings.Fields(s.argv)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdin = strings.NewReader(s.input)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", s.argv, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// inbound chooses what is there of the two.
func inbound(program func(string) string, ports []uint16) ([]step, error) {
	v4, v6 := program("iptables-restore"), program("ip6tables-restore")
	if v4 != "" && v6 != "" {
		return []step{{v4 + " -w 5", restored(ports, "icmp")}, {v6 + " -w 5", restored(ports, "ipv6-icmp")}}, nil
	}
	if nft := program("nft"); nft != "" {
		return []step{{nft + " -f -", ruleset(ports)}}, nil
	}
	return nil, ErrNone
}

// restored is the table as iptables-restore(8) reads it. Messages of ICMP are let in: what
// is reached by them is the kernel, and neighbours aren't found without.
func restored(ports []uint16, icmp string) string {
	var b strings.Builder
	b.WriteString("*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n" +
		"-A INPUT -i lo -j ACCEPT\n" +
		"-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n" +
		"-A INPUT -p " + icmp + " -j ACCEPT\n")
	for _, p := range ports {
		fmt.Fprintf(&b, "-A INPUT -p tcp --dport %d -j ACCEPT\n", p)
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

// ruleset is the same as nft(8) reads it. A table must be there to be deleted.
func ruleset(ports []uint16) string {
	var open strings.Builder
	for _, p := range ports {
		open.WriteString(" tcp dport " + strconv.Itoa(int(p)) + " accept\n")
	}
	return "table inet croft\ndelete table inet croft\ntable inet croft {\n" +
		" chain input {\n type filter hook input priority 0; policy drop;\n iif lo accept\n ct state established,related accept\n" +
		" meta l4proto { icmp, ipv6-icmp } accept\n" + open.String() + " }\n" +
		" chain forward {\n type filter hook forward priority 0; policy drop;\n }\n}\n"
}
