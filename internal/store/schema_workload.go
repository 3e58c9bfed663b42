package store

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

func jobs() *relation[workload.Job] {
	type row = workload.Job
	return &relation[row]{name: "job", keys: 1, secret: []string{"spec.env"}, columns: []column[row]{
		num("id", func(r *row) *id.Job { return &r.ID }),
		num("person", func(r *row) *id.User { return &r.User }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		str("state", func(r *row) *workload.JobState { return &r.State }),
		// Also in the spec, which is read later and says the same.
		str("partition", func(r *row) *string { return &r.Spec.Partition }),
		num("submitted", func(r *row) *int64 { return &r.Submitted }),
		num("ended", func(r *row) *int64 { return &r.Ended }),
		num("seq", func(r *row) *int64 { return &r.Seq }),
		str("outcome", func(r *row) *codes.Outcome { return &r.Outcome }),
		num("deposit", func(r *row) *money.Micros { return &r.Deposit }),
		num("charged", func(r *row) *money.Micros { return &r.Charged }),
		num("returned", func(r *row) *money.Micros { return &r.Returned }),
		num("array_of", func(r *row) *id.Job { return &r.Of }),
		num("element", func(r *row) *int64 { return &r.Index }),
		num("token", func(r *row) *id.Token { return &r.Token.ID }), // also in the body
		doc("spec", func(r *row) *workload.Spec { return &r.Spec }),
		body(
			attr[row]{"in", func(r *row) any { return &r.In }},
			attr[row]{"token", func(r *row) any { return &r.Token }},
			attr[row]{"steps", func(r *row) any { return &r.Steps }},
			attr[row]{"shared", func(r *row) any { return &r.Shared }},
			attr[row]{"array", func(r *row) any { return &r.Array }},
			attr[row]{"pinned", func(r *row) any { return &r.Pinned }},
			attr[row]{"pin", func(r *row) any { return &r.Pin }},
			attr[row]{"path", func(r *row) any { return &r.Path }},
			attr[row]{"message", func(r *row) any { return &r.Message }},
			attr[row]{"attempt", func(r *row) any { return &r.Attempt }},
			attr[row]{"past", func(r *row) any { return &r.Past }},
			attr[row]{"requeues", func(r *row) any { return &r.Requeues }},
			attr[row]{"exit_code", func(r *row) any { return &r.ExitCode }},
			attr[row]{"rested", func(r *row) any { return &r.Rested }},
			attr[row]{"hold", func(r *row) any { return &r.Hold }},
			attr[row]{"met", func(r *row) any { return &r.Met }},
			attr[row]{"eligible", func(r *row) any { return &r.Eligible }},
			attr[row]{"aged", func(r *row) any { return &r.Aged }},
			attr[row]{"promise", func(r *row) any { return &r.Promise }},
			attr[row]{"claim", func(r *row) any { return &r.Claim }},
			attr[row]{"billing", func(r *row) any { return &r.Billing }},
			attr[row]{"factor", func(r *row) any { return &r.Factor }},
			attr[row]{"sources", func(r *row) any { return &r.Sources }},
			attr[row]{"refunded", func(r *row) any { return &r.Refunded }},
			attr[row]{"key", func(r *row) any { return &r.Key }},
			attr[row]{"quoted", func(r *row) any { return &r.Quoted }},
		),
	}}
}

func steps() *relation[workload.Step] {
	type row = workload.Step
	return &relation[row]{name: "step", keys: 2, secret: []string{"spec.env"}, columns: []column[row]{
		num("job", func(r *row) *id.Job { return &r.Job }),
		num("n", func(r *row) *int32 { return &r.N }),
		str("state", func(r *row) *workload.JobState { return &r.State }),
		num("submitted", func(r *row) *int64 { return &r.Submitted }),
		num("ended", func(r *row) *int64 { return &r.Ended }),
		num("added", func(r *row) *int64 { return &r.Added }),
		num("seq", func(r *row) *int64 { return &r.Seq }),
		str("outcome", func(r *row) *codes.Outcome { return &r.Outcome }),
		doc("spec", func(r *row) *workload.StepSpec { return &r.Spec }),
		body(
			attr[row]{"attempt", func(r *row) any { return &r.Attempt }},
			attr[row]{"message", func(r *row) any { return &r.Message }},
			attr[row]{"image", func(r *row) any { return &r.Image }},
			attr[row]{"devices", func(r *row) any { return &r.Devices }},
			attr[row]{"started", func(r *row) any { return &r.Started }},
			attr[row]{"until", func(r *row) any { return &r.Until }},
			attr[row]{"stop_at", func(r *row) any { return &r.StopAt }},
			attr[row]{"grace", func(r *row) any { return &r.Grace }},
			attr[row]{"kill", func(r *row) any { return &r.Kill }},
			attr[row]{"cause", func(r *row) any { return &r.Cause }},
			attr[row]{"exit_code", func(r *row) any { return &r.ExitCode }},
		),
	}}
}

func refusals() *relation[workload.Refusal] {
	type row = workload.Refusal
	return &relation[row]{name: "refusal", keys: 1, columns: []column[row]{
		num("id", func(r *row) *id.Refusal { return &r.ID }),
		num("person", func(r *row) *id.User { return &r.User }),
		num("account", func(r *row) *id.Account { return &r.Account }),
		num("at", func(r *row) *int64 { return &r.At }),
		num("seq", func(r *row) *int64 { return &r.Seq }),
		doc("spec", func(r *row) *workload.Spec { return &r.Spec }),
		raw("verdict", func(r *row) *[]byte { return &r.Verdict }),
	}}
}
