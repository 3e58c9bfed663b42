package httpapi

import (
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/quantity"
)

func (c *call) partitions() (v1.Page[v1.Partition], error) {
	return page(c.Reader.Partitions(c.p), nil)
}

func (c *call) partition() (v1.Partition, error) { return c.Reader.Partition(c.p, c.path("name")) }

func (c *call) createPartition(in v1.NewPartition) (v1.Partition, error) {
	return c.putPartition(command.PartitionPut{Create: true, Name: in.Name}, in.PartitionPatch)
}

func (c *call) setPartition(in v1.PartitionPatch) (v1.Partition, error) {
	return c.putPartition(command.PartitionPut{Name: c.path("name")}, in)
}

func (c *call) putPartition(cmd command.PartitionPut, in v1.PartitionPatch) (v1.Partition, error) {
	var bad fault.Fields
	cmd.Nodes, cmd.Priority, cmd.Accounts, cmd.Deny, cmd.QoS = in.Nodes, in.Priority, in.Accounts, in.Deny, in.QoS
	cmd.ShareDevices = in.ShareDevices
	cmd.MaxWall = duration(&bad, "max_time", in.MaxTime)
	cmd.DefWall = duration(&bad, "default_time", in.DefaultTime)
	if err := bad.Err(); err != nil {
		return v1.Partition{}, err
	}
	if _, err := c.do(cmd); err != nil {
		return v1.Partition{}, err
	}
	return c.Reader.Partition(c.p, cmd.Name)
}

func (c *call) removePartition() error {
	_, err := c.do(command.PartitionRemove{Name: c.path("name")})
	return err
}

func (c *call) qosList() (v1.Page[v1.QoS], error) { return page(c.Reader.QoSList(c.p), nil) }

func (c *call) qos() (v1.QoS, error) { return c.Reader.QoS(c.p, c.path("name")) }

func (c *call) createQoS(in v1.NewQoS) (v1.QoS, error) {
	return c.putQoS(command.QoSPut{Create: true, Name: in.Name}, in.QoSPatch)
}

func (c *call) setQoS(in v1.QoSPatch) (v1.QoS, error) {
	return c.putQoS(command.QoSPut{Name: c.path("name")}, in)
}

func (c *call) putQoS(cmd command.QoSPut, in v1.QoSPatch) (v1.QoS, error) {
	var bad fault.Fields
	cmd.Priority, cmd.Accounts, cmd.Partitions, cmd.Preempts = in.Priority, in.Accounts, in.Partitions, in.Preempts
	cmd.MaxWall = duration(&bad, "max_time", in.MaxTime)
	cmd.DefWall = duration(&bad, "default_time", in.DefaultTime)
	cmd.Grace = duration(&bad, "grace", in.Grace)
	cmd.MaxGrace = duration(&bad, "max_grace", in.MaxGrace)
	cmd.Refuse = either(&bad, "busy", in.Busy, "refuse", "queue")
	if in.Factor != nil {
		n, err := quantity.ParseDecimal(*in.Factor, 3)
		if err != nil {
			bad.Add("factor", "must be a factor such as 1 or 0.25")
		}
		cmd.Factor = &n
	}
	cmd.Contract = contract(&bad, in)
	if err := bad.Err(); err != nil {
		return v1.QoS{}, err
	}
	if _, err := c.do(cmd); err != nil {
		return v1.QoS{}, err
	}
	return c.Reader.QoS(c.p, cmd.Name)
}

// contract is the part of a change that is about being preempted.
func contract(bad *fault.Fields, in v1.QoSPatch) command.ContractChange {
	out := command.ContractChange{
		Exempt: in.Exempt, MinRun: duration(bad, "min_run", in.MinRun), Grace: duration(bad, "preempt_grace", in.PreemptGrace),
		Cancel: either(bad, "preempt_mode", in.PreemptMode, "cancel", "requeue"),
		Keep:   either(bad, "preempt_money", in.PreemptMoney, "keep", "refund"),
	}
	if in.PreemptSignal != nil {
		name := strings.TrimPrefix(strings.ToUpper(*in.PreemptSignal), "SIG")
		out.Signal = &name
	}
	return out
}

func (c *call) removeQoS() error {
	_, err := c.do(command.QoSRemove{Name: c.path("name")})
	return err
}

// duration reads a length of time, if one is given.
func duration(bad *fault.Fields, field string, q *v1.Quantity) *int64 {
	if q == nil {
		return nil
	}
	n, err := quantity.ParseDuration(string(*q))
	if err != nil {
		bad.Add(field, "must be a time such as 30s, 90m or 2h")
	}
	return &n
}

// either reads one of two words, if one is given: whether it is the first.
func either(bad *fault.Fields, field string, s *string, yes, no string) *bool {
	if s == nil {
		return nil
	}
	is := *s == yes
	if !is && *s != no {
		bad.Add(field, "must be %s or %s", no, yes)
	}
	return &is
}
