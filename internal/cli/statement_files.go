package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"

	v1 "croft.dev/croft/api/v1"
)

// Statements as files: CSV for spreadsheets, CSV as the FinOps Open Cost and Usage
// Specification (FOCUS) names its columns, and HTML to print.

// cell makes text that people chose safe in a spreadsheet: what begins like a formula
// would be one.
func cell(s string) string {
	s = clean(s)
	begins := strings.TrimLeftFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }) // what some programs skip
	if strings.HasPrefix(s, "'") || strings.IndexAny(begins, "=+-@＝＋－＠") == 0 {
		return "'" + s
	}
	return s
}

func writeCSV(w io.Writer, rows [][]string) error {
	c := csv.NewWriter(w)
	if err := c.WriteAll(rows); err != nil {
		return err
	}
	return c.Error()
}

func statementCSV(s *v1.Statement) [][]string {
	rows := [][]string{{"grant", "source", "account", "user", "day", "job", "step", "device", "node", "model", "from", "to", "gpu", "gpu_hours", "credits", "token"}}
	for _, l := range s.Lines {
		rows = append(rows, []string{
			cell(l.Grant), cell(l.Source), cell(l.Account), cell(l.User), cell(l.Day), cell(l.Job), cell(l.Step), cell(l.Device), cell(l.Node), cell(l.Model),
			exactly(l.From), exactly(l.To), clean(string(l.GPU)), clean(l.GPUHours), clean(l.Credits), cell(tokenText(l.Token)),
		})
	}
	return rows
}

func exactly(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func machineCSV(s *v1.MachineStatement) [][]string {
	rows := [][]string{{"node", "model", "cause", "gpu_hours"}}
	for _, n := range s.Nodes {
		for _, m := range n.Models {
			for _, cause := range slices.Sorted(maps.Keys(m.Causes)) {
				rows = append(rows, []string{cell(n.Node), cell(m.Model), cell(cause), clean(m.Causes[cause])})
			}
		}
	}
	return rows
}

// focusCSV has a row for each line. Credits are no currency: BillingCurrency is ISO 4217's
// code for that, and PricingCurrency names them.
func focusCSV(s *v1.Statement) [][]string {
	rows := [][]string{{
		"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass",
		"ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "EffectiveCost",
		"InvoiceIssuerName", "ListCost", "PricingCategory", "PricingCurrency", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ResourceId",
		"ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "SkuId", "SubAccountId", "SubAccountName", "Tags",
	}}
	for _, l := range s.Lines {
		from, to := s.From, s.To
		if day, err := time.Parse(time.DateOnly, l.Day); err == nil {
			from, to = day, day.AddDate(0, 0, 1)
		}
		if l.From != nil && l.To != nil {
			from, to = *l.From, *l.To
		}
		hours, unit, kind := clean(l.GPUHours), "GPU Hours", "GPU"
		if l.Model == "" {
			hours, unit, kind = "", "", "CPU and memory"
		}
		category, resource := "Usage", cell(firstOf(l.Device, l.Step, l.Job))
		if strings.HasPrefix(l.Credits, "-") {
			category = "Credit" // more came back than was charged
		}
		of := map[string]string{"grant": l.Grant, "source": l.Source, "user": l.User, "job": l.Job}
		if l.Token != nil {
			of["token"] = tokenText(l.Token)
		}
		tags, err := json.Marshal(of)
		if err != nil {
			tags = []byte("{}") // strings always have a form
		}
		cost := clean(l.Credits)
		rows = append(rows, []string{
			cost, cell(s.Account), cell(s.Account), "XXX", focusTime(s.To), focusTime(s.From), category, "",
			cell(fmt.Sprintf("%s of %s", kind, l.User)), "Usage-Based", focusTime(to), focusTime(from), hours, unit, cost, cost,
			"Croft", cost, "Standard", "credits", hours, unit, "Croft", "Croft", resource,
			resource, kind, "Compute", "Croft", cell(l.Model), cell(l.Account), cell(l.Account), string(tags),
		})
	}
	return rows
}

func focusTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// decimalOf reads decimal text; what isn't is 0.
func decimalOf(s string) *big.Rat {
	if r, ok := new(big.Rat).SetString(s); ok && len(s) < 40 {
		return r
	}
	return new(big.Rat)
}

func sum(a, b string) string { return new(big.Rat).Add(decimalOf(a), decimalOf(b)).FloatString(3) }

func isZero(s string) bool { return decimalOf(s).Sign() == 0 }

// document is one of one file to print: it loads nothing, and runs nothing.
type document struct {
	title string
	body  strings.Builder
}

const pageHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
body { font: 11pt/1.45 system-ui, sans-serif; color: #111; background: #fff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem }
table { border-collapse: collapse; width: 100%% } th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #ccc; vertical-align: top }
th { border-bottom-color: #111 } .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.verdict { margin-top: 1.6rem; padding: .4rem .6rem; border: 1px solid #2a7; } .wrong { border: 2px solid #b00; font-weight: bold }
@media print { @page { margin: 18mm } body { margin: 0; max-width: none; font-size: 9.5pt } thead { display: table-header-group } tr, .verdict { break-inside: avoid } }
</style></head><body>
`

func newDocument(title string, from, to time.Time) *document {
	p := &document{title: title}
	fmt.Fprintf(&p.body, "<h1>%s</h1>\n<p>%s to %s (UTC)</p>\n", escaped(title), from.UTC().Format(time.DateOnly), to.UTC().Add(-time.Nanosecond).Format(time.DateOnly))
	return p
}

func escaped(s string) string { return html.EscapeString(clean(s)) }

// table writes a table; heads with ">" are of numbers.
func (p *document) table(title string, heads []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	class := make([]string, len(heads))
	fmt.Fprintf(&p.body, "<h2>%s</h2>\n<table><thead><tr>", escaped(title))
	for i, h := range heads {
		name, number := strings.CutPrefix(h, ">")
		if number {
			class[i] = ` class="n"`
		}
		fmt.Fprintf(&p.body, `<th scope="col"%s>%s</th>`, class[i], escaped(name))
	}
	p.body.WriteString("</tr></thead><tbody>\n")
	for _, r := range rows {
		p.body.WriteString("<tr>")
		for i, c := range r {
			fmt.Fprintf(&p.body, "<td%s>%s</td>", class[i], escaped(c))
		}
		p.body.WriteString("</tr>\n")
	}
	p.body.WriteString("</tbody></table>\n")
}

func (p *document) line(text string) { fmt.Fprintf(&p.body, "<p>%s</p>\n", escaped(text)) }

func (p *document) verdict(yes string, verified bool, difference string) {
	class := "verdict"
	if !verified {
		class, yes = "verdict wrong", "NOT verified: "+difference
	}
	fmt.Fprintf(&p.body, "<p class=\"%s\">%s</p>\n", class, escaped(yes))
}

func (p *document) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, pageHead+"%s</body></html>\n", escaped(p.title), p.body.String())
	return err
}

func (a *app) statementHTML(s *v1.Statement) *document {
	p := newDocument("Statement of "+s.Account, s.From, s.To)
	var grants, users, lines [][]string
	for _, g := range s.Grants {
		until := a.lastDay(g.End)
		if g.Until != nil {
			until = g.Until.In(a.env.Zone).Format(time.DateOnly)
		}
		grants = append(grants, []string{sourceName(g), a.lastDay(g.Start), a.lastDay(g.End), g.Opening, g.Given, g.Spent, g.Expired, g.Left, g.Deposits, until})
	}
	if len(grants) > 0 {
		t := s.Total
		grants = append(grants, []string{"All", "", "", t.Opening, t.Given, t.Spent, t.Expired, t.Left, "", ""})
	}
	p.table("Grants", []string{"Source", "From", "Last day", ">Opening", ">Given", ">Spent", ">Expired", ">Left", ">Set aside", "At this pace until"}, grants)
	for _, u := range s.Users {
		for i, m := range u.Models {
			jobs := ""
			if i == 0 {
				jobs = fmt.Sprint(u.Jobs)
			}
			users = append(users, []string{u.Account, u.User, m.Model, jobs, m.GPUHours, m.Charged})
		}
	}
	if len(s.Accounts) > 0 {
		users = append(users, []string{"All", "", "", "", s.Accounts[0].GPUHours, s.Accounts[0].Charged})
	}
	p.table("Members", []string{"Account", "User", "Model", ">Jobs", ">GPU hours", ">Credits"}, users)
	for _, l := range s.Lines {
		lines = append(lines, []string{l.Source, l.Account, l.User, firstOf(l.Day, l.Step, l.Job, tokenText(l.Token)), l.Device, l.Model, exactly(l.From), exactly(l.To), l.GPUHours, l.Credits})
	}
	p.table("By "+s.By, []string{"Grant", "Account", "User", "Of", "Device", "Model", "From", "To", ">GPU hours", ">Credits"}, lines)
	p.nodes(s.Devices)
	for _, c := range s.Corrections {
		p.line(correctionText(c))
	}
	a.closedLines(s.Closed, p.line)
	p.verdict(accountVerified, s.Verified, s.Difference)
	return p
}

func (a *app) machineHTML(s *v1.MachineStatement) *document {
	title := "The machine's balance"
	if s.Of != "" {
		title = "Balance of " + s.Of
	}
	p := newDocument(title, s.From, s.To)
	p.nodes(append(slices.Clone(s.Nodes), v1.StatementNode{Node: "All", Models: []v1.StatementModelTime{{Total: s.Total, By: s.By, Causes: s.Causes}}}))
	a.closedLines(s.Closed, p.line)
	p.verdict(machineVerified, s.Verified, s.Difference)
	return p
}

func (p *document) nodes(nodes []v1.StatementNode) {
	all := map[string]string{}
	for _, n := range nodes {
		for _, m := range n.Models {
			maps.Copy(all, m.By)
		}
	}
	heads, rows := []string{"Node", "Model", ">GPU hours"}, [][]string{}
	for _, k := range payersOf(all) {
		heads = append(heads, ">"+k)
	}
	for _, n := range nodes {
		for _, m := range n.Models {
			row := []string{n.Node, m.Model, m.Total}
			for _, k := range payersOf(all) {
				row = append(row, m.By[k])
			}
			rows = append(rows, row)
		}
	}
	p.table("Device-hours", heads, rows)
}
