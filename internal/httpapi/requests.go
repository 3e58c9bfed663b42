package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/world"
)

func requestOperations() []operation {
	return []operation{
		pages("listRequests", "GET /v1/requests", "Requests that you may see, the newest first", access.RequestSee, (*call).requests,
			param{"whose", "me (default): your own and those that you may decide; mine or inbox: either; all that you may see"},
			param{"state", "open (default), approved, rejected, withdrawn, expired, or all"}, param{"kind", "only of this kind"}, param{"account", "only about this account"}),
		tell("makeRequest", "POST /v1/requests", "Ask for something that others have to approve", access.RequestMake, created, (*call).makeRequest),
		ask("getRequest", "GET /v1/requests/{id}", "A request with what it would change and who may decide it", access.RequestSee, (*call).request),
		tell("approveRequest", "POST /v1/requests/{id}/approve", "Do what a request asks for, as you might without it; never your own", access.RequestDecide, ok, (*call).approveRequest),
		tell("rejectRequest", "POST /v1/requests/{id}/reject", "Refuse what a request asks for", access.RequestDecide, ok, (*call).rejectRequest),
		ask("withdrawRequest", "POST /v1/requests/{id}/withdraw", "Take your own request back", access.RequestMake, (*call).withdrawRequest),
		ask("remindRequest", "POST /v1/requests/{id}/remind", "Remind those who may decide your request; once a day", access.RequestMake, (*call).remindRequest),
	}
}

func (c *call) requests() (v1.Page[v1.Request], error) {
	q := c.r.URL.Query()
	limit, err := number(q.Get("limit"), "limit")
	if err != nil {
		return v1.Page[v1.Request]{}, err
	}
	return c.Reader.Requests(c.p, query.RequestQuery{
		Whose: q.Get("whose"), State: q.Get("state"), Kind: q.Get("kind"), Account: q.Get("account"), Limit: int(limit), Cursor: q.Get("cursor"),
	})
}

func (c *call) request() (v1.Request, error) {
	k, err := rowID("request", c.path("id"))
	if err != nil {
		return v1.Request{}, err
	}
	return c.Reader.Request(c.p, id.Request(k))
}

func (c *call) makeRequest(in v1.NewRequest) (v1.Request, error) {
	wish, err := c.wishOf(in.RequestWish)
	if err != nil {
		return v1.Request{}, err
	}
	expires, err := moment("expires", in.Expires)
	if err != nil {
		return v1.Request{}, err
	}
	got, err := c.do(command.RequestMake{Wish: wish, Message: in.Message, Expires: expires})
	if err != nil {
		return v1.Request{}, err
	}
	if got.Replayed != nil {
		return before(c.Reader.RequestMade(c.p, got.At))
	}
	row, ok := got.Result.(approval.Request)
	if !ok {
		return v1.Request{}, unexpected(got)
	}
	return c.Reader.Request(c.p, row.ID)
}

// wishOf reads what is asked for, as the operation reads it that does it directly.
func (c *call) wishOf(in v1.RequestWish) (approval.Wish, error) {
	var out approval.Wish
	var bad fault.Fields
	if j := in.Join; j != nil {
		ends, err := moment("ends", j.Ends)
		if err != nil {
			return out, err
		}
		out.Join = &approval.Join{Account: j.Account, Role: orWord(j.Role, access.Member.String()), Ends: ends}
	}
	if x := in.Credits; x != nil {
		end, err := moment("end", x.End)
		if err != nil {
			return out, err
		}
		out.Credits = &approval.Credits{Account: x.Account, Amount: creditsOf(&bad, x.Amount), Source: x.Source, End: end, Subtree: x.Subtree}
	}
	if t := in.Transfer; t != nil {
		out.Transfer = &approval.Transfer{From: t.From, To: t.To, Amount: creditsOf(&bad, t.Amount), Grant: grantOf(&bad, t.Grant)}
	}
	if l := in.Limit; l != nil {
		cmd := limitOf(&bad, *l)
		if cmd.Carry != (limits.Carry{}) || l.ID != "" {
			bad.Add("carry_over", "stays as it is: neither that nor id is asked for")
		}
		out.Limit = &approval.Limit{Account: cmd.Account, User: cmd.User, Partition: cmd.Partition, QoS: cmd.QoS, Resource: cmd.Resource, Per: cmd.Per, Max: cmd.Max}
	}
	if err := c.wishBeyond(in, &out); err != nil {
		return out, err
	}
	return out, bad.Err()
}

// wishBeyond reads what is asked for besides roles, money and limits.
func (c *call) wishBeyond(in v1.RequestWish, out *approval.Wish) (err error) {
	if in.Job != nil {
		return fault.Invalid("job", "is asked for by submitting with a token that asks")
	}
	if x := in.Wall; x != nil {
		out.Wall = &approval.Wall{}
		if out.Wall.Job, err = c.started(x.Job, access.JobControl); err != nil {
			return err
		}
		if out.Wall.Time, err = wallOf(x.Time); err != nil {
			return err
		}
	}
	if x := in.Reservation; x != nil {
		r, err := reservationOf(*x)
		switch {
		case err != nil:
			return err
		case x.DryRun:
			return fault.Invalid("dry_run", "isn't asked for: leave it out")
		}
		out.Reservation = &approval.Reservation{
			Name: r.Name, Partition: r.Partition, Accounts: r.Accounts, Users: r.Users, Payer: r.Payer, Count: r.Count, CPU: r.CPU, Mem: r.Mem, GPU: r.GPU, Model: r.Model, Where: r.Where, Nodes: r.Nodes,
			From: r.From, To: r.To, Length: r.Length, Repeat: uint8(r.Repeat), Until: r.Until, Join: r.Join, Each: r.Each, Images: r.Images, Reason: r.Reason,
		}
	}
	if x := in.Asset; x != nil {
		out.Asset = &approval.Asset{Account: x.Account, Image: x.Image, Folder: x.Folder, Owner: x.Owner}
	}
	return nil
}

func (c *call) approveRequest(in v1.RequestApproval) (v1.Request, error) {
	return c.decideRequest(func(k id.Request) world.Command {
		return command.RequestApprove{Request: k, Words: in.Words, Source: in.Source}
	})
}

func (c *call) rejectRequest(in v1.RequestDecision) (v1.Request, error) {
	return c.decideRequest(func(k id.Request) world.Command { return command.RequestReject{Request: k, Words: in.Words} })
}

func (c *call) withdrawRequest() (v1.Request, error) {
	return c.decideRequest(func(k id.Request) world.Command { return command.RequestWithdraw{Request: k} })
}

func (c *call) remindRequest() (v1.Request, error) {
	return c.decideRequest(func(k id.Request) world.Command { return command.RequestRemind{Request: k} })
}

// decideRequest has something done with a request, and answers with what it is then. What was
// repeated and failed the first time fails again.
func (c *call) decideRequest(as func(id.Request) world.Command) (v1.Request, error) {
	n, err := rowID("request", c.path("id"))
	if err != nil {
		return v1.Request{}, err
	}
	cmd := as(id.Request(n))
	got, err := c.do(cmd)
	if err != nil {
		return v1.Request{}, err
	}
	out, err := c.Reader.Request(c.p, id.Request(n))
	if _, approves := cmd.(command.RequestApprove); approves && got.Replayed != nil && err == nil && out.State == string(approval.Open) {
		return out, fault.New(codes.Conflict, "%s", orWord(out.Failed, "it could not be approved"))
	}
	return out, err
}
