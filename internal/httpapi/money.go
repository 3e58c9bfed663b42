package httpapi

import (
	"cmp"
	"slices"
	"strconv"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/query"
)

func (c *call) grants() (v1.Page[v1.Grant], error) {
	return page(c.Reader.Grants(c.r.Context(), c.p, c.r.URL.Query().Get("account")))
}

func (c *call) giveGrant(in v1.Grant) (v1.Grant, error) {
	var bad fault.Fields
	amount, err := money.Parse(in.Amount)
	if err != nil {
		bad.Add("amount", "must be credits such as 500 or 2.5")
	}
	start, err := moment("start", in.Start)
	if err != nil {
		return v1.Grant{}, err
	}
	end, err := moment("end", in.End)
	if err != nil {
		return v1.Grant{}, err
	}
	if in.ID != "" || in.State != "" || in.Available != "" || in.Deposits != "" || in.Spent != "" || in.Used != 0 || in.Warning != "" || in.Lasts != nil || in.Allowance != "" || in.Carried != "" || in.Transferred != "" {
		bad.Add("id", "id, state, available, deposits, spent, used, warning, lasts, allowance, carried and transferred aren't set here")
	}
	if err := bad.Err(); err != nil {
		return v1.Grant{}, err
	}
	got, err := c.do(command.GrantGive{Account: in.Account, Amount: amount, Source: in.Source, Start: start, End: end, Subtree: in.Subtree})
	if err != nil {
		return v1.Grant{}, err
	}
	if got.Replayed != nil {
		return before(c.Reader.GrantMade(c.p, got.At, in))
	}
	row, ok := got.Result.(ledger.Grant)
	if !ok {
		return v1.Grant{}, unexpected(got)
	}
	return c.Reader.Grant(c.p, row), nil
}

func (c *call) transferGrant(in v1.GrantTransfer) (v1.Page[v1.Grant], error) {
	cmd := command.GrantTransfer{From: in.From, To: in.To, Subtree: in.Subtree}
	var bad fault.Fields
	cmd.Amount = creditsOf(&bad, in.Amount)
	cmd.Grant = grantOf(&bad, in.Grant)
	if err := bad.Err(); err != nil {
		return v1.Page[v1.Grant]{}, err
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.Page[v1.Grant]{}, err
	}
	if got.Replayed != nil {
		return page(c.Reader.GrantsPassed(c.p, got.At, in.From, in.To), nil)
	}
	rows, ok := got.Result.([]ledger.Grant)
	if !ok {
		return v1.Page[v1.Grant]{}, unexpected(got)
	}
	out := v1.Page[v1.Grant]{}
	for _, g := range rows {
		out.Items = append(out.Items, c.Reader.Grant(c.p, g))
	}
	return out, nil
}

// creditsOf reads an amount of credits.
func creditsOf(bad *fault.Fields, text string) money.Micros {
	n, err := money.Parse(text)
	if err != nil {
		bad.Add("amount", "must be credits such as 500 or 2.5")
	}
	return n
}

// grantOf reads the number of a grant; empty: 0, none.
func grantOf(bad *fault.Fields, text string) id.Grant {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		bad.Add("grant", "must be a grant's number: croft grant ls has them")
	}
	return id.Grant(n)
}

// before answers a repeated request with what it made, if that is still there.
func before[T any](made T, ok bool) (T, error) {
	if !ok {
		return made, fault.New(codes.Gone, "this was done before, and what it made is no longer there")
	}
	return made, nil
}

func (c *call) prices() (v1.Page[v1.PriceVersion], error) { return page(c.Reader.Prices(c.p), nil) }

func (c *call) setPrice(in v1.PriceVersion) (v1.PriceVersion, error) {
	var bad fault.Fields
	if in.ID != "" || in.By != "" {
		bad.Add("id", "id and by aren't set here")
	}
	cmd := command.PricePut{Partition: in.Partition, CPU: rate(&bad, "cpu", in.CPU), Mem: rate(&bad, "mem", in.Mem)}
	for model, text := range in.GPU {
		if model == "" || len(model) > 63 {
			bad.Add("gpu", "names a model that can't be: 1 to 63 characters, or *")
		}
		cmd.Devices = append(cmd.Devices, catalog.ModelRate{Model: model, Rate: rate(&bad, "gpu."+model, text)})
	}
	slices.SortFunc(cmd.Devices, func(a, b catalog.ModelRate) int { return cmp.Compare(a.Model, b.Model) })
	if err := bad.Err(); err != nil {
		return v1.PriceVersion{}, err
	}
	var err error
	if cmd.From, err = moment("from", in.From); err != nil {
		return v1.PriceVersion{}, err
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.PriceVersion{}, err
	}
	if got.Replayed != nil {
		return before(c.Reader.PriceMade(c.p, got.At, in.Partition))
	}
	row, ok := got.Result.(catalog.Price)
	if !ok {
		return v1.PriceVersion{}, unexpected(got)
	}
	return c.Reader.Price(c.p, row), nil
}

// rate reads credits per hour; empty is free.
func rate(bad *fault.Fields, field, text string) money.Rate {
	if text == "" {
		return 0
	}
	m, err := money.Parse(text)
	if err != nil {
		bad.Add(field, "must be credits per hour such as 1 or 0.02")
	}
	return money.Rate(m)
}

func (c *call) limits() (v1.Page[v1.LimitUse], error) {
	q := c.r.URL.Query()
	return page(c.Reader.Limits(c.p, query.LimitQuery{Account: q.Get("account"), User: q.Get("user"), Partition: q.Get("partition"), QoS: q.Get("qos")}))
}

func (c *call) setLimit(in v1.Limit) (v1.LimitUse, error) {
	if in.ID != "" {
		return v1.LimitUse{}, fault.Invalid("id", "isn't set here: a limit is known by its scope, resource and period")
	}
	var bad fault.Fields
	cmd := limitOf(&bad, in)
	if err := bad.Err(); err != nil {
		return v1.LimitUse{}, err
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.LimitUse{}, err
	}
	if got.Replayed != nil {
		return before(c.Reader.LimitOn(c.p, in))
	}
	row, ok := got.Result.(limits.Limit)
	if !ok {
		return v1.LimitUse{}, unexpected(got)
	}
	return c.Reader.LimitMade(c.p, row), nil
}

// limitOf reads a limit.
func limitOf(bad *fault.Fields, in v1.Limit) command.LimitPut {
	resource := limits.Resource(in.Resource)
	most, err := limits.Parse(resource, string(in.Max))
	if err != nil {
		bad.Add("max", "must be an amount of %s", orWord(in.Resource, "the resource"))
	}
	per, ok := limits.ParsePer(in.Per)
	if !ok && in.Per != "" {
		bad.Add("per", "must be day, week, month, year or rolling and a time from 1h to 3660d, such as rolling 7d")
	}
	carry, err := limits.ParseCarry(resource, in.CarryOver)
	if err != nil {
		bad.Add("carry_over", "must be a share such as 50%% or an amount of %s", orWord(in.Resource, "the resource"))
	}
	return command.LimitPut{Account: in.Account, User: in.User, Partition: in.Partition, QoS: in.QoS, Resource: resource, Per: per, Max: most, Carry: carry}
}

func (c *call) removeLimit() error {
	n, err := rowID("limit", c.path("id"))
	if err != nil {
		return err
	}
	_, err = c.do(command.LimitPut{Remove: id.Limit(n)})
	return err
}

func (c *call) verify() (v1.Verification, error) { return c.Reader.Verify(c.r.Context(), c.p) }

func (c *call) transfers() (v1.Page[v1.Transfer], error) {
	q := c.r.URL.Query()
	limit, err := number(q.Get("limit"), "limit")
	if err != nil {
		return v1.Page[v1.Transfer]{}, err
	}
	return c.Reader.Transfers(c.r.Context(), c.p, query.TransferQuery{
		Ledger: q.Get("ledger"), Job: q.Get("job"), Limit: int(limit), Cursor: q.Get("cursor"),
	})
}
