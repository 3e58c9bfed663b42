package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
)

func (c *call) shares() (v1.Page[v1.ShareUse], error) {
	q := c.r.URL.Query()
	return page(c.Reader.Shares(c.p, q.Get("account"), q.Get("partition")))
}

func (c *call) setShare(in v1.Share) (v1.ShareUse, error) {
	if in.ID != "" {
		return v1.ShareUse{}, fault.Invalid("id", "isn't set here: a share is known by its account, partition and resource")
	}
	r := limits.Resource(in.Resource)
	var bad fault.Fields
	amount := func(field string, q v1.Quantity) *int64 {
		n, err := limits.Parse(r, string(q))
		if err != nil {
			bad.Add(field, "must be an amount of %s", orWord(in.Resource, "the resource"))
		}
		return &n
	}
	bound := func(field string, q v1.Quantity) *int64 {
		if q == "" {
			return nil
		}
		return amount(field, q)
	}
	cmd := command.SharePut{
		Account: in.Account, Partition: in.Partition, Resource: r, Weight: in.Weight,
		Guaranteed: *amount("guaranteed", in.Guaranteed), Limit: bound("limit", in.Limit), Borrow: bound("borrow", in.Borrow), Lend: bound("lend", in.Lend),
	}
	if err := bad.Err(); err != nil {
		return v1.ShareUse{}, err
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.ShareUse{}, err
	}
	if got.Replayed != nil {
		return before(c.Reader.ShareOn(c.p, in))
	}
	row, ok := got.Result.(share.Share)
	if !ok {
		return v1.ShareUse{}, unexpected(got)
	}
	return c.Reader.ShareMade(c.p, row), nil
}

func (c *call) removeShare() error {
	n, err := rowID("share", c.path("id"))
	if err != nil {
		return err
	}
	_, err = c.do(command.SharePut{Remove: id.Share(n)})
	return err
}
