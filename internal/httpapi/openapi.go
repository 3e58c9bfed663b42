package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	v1 "croft.dev/croft/api/v1"
)

// openapi is the API's description in both of its forms.
type openapi struct{ json, yaml []byte }

// Document returns the OpenAPI 3.1 document as YAML: what api/v1/openapi.yaml has.
func Document() ([]byte, error) {
	doc, err := document()
	return doc.yaml, err
}

// document describes every operation of the table. The schemas are made from the
// wire types, so they can't say anything else than what is sent.
func document() (openapi, error) {
	reg := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	reg.RegisterTypeAlias(reflect.TypeFor[v1.Quantity](), reflect.TypeFor[quantitySchema]())
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Croft", Version: "1",
			Description: "On the unix socket the kernel says who you are; elsewhere send a personal token, or the secret of a session, as a bearer token. Errors are Problem, as application/problem+json.",
		},
		Components: &huma.Components{
			Schemas:         reg,
			SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "a personal token or a session's secret; not needed on the unix socket"}},
		},
		Security: []map[string][]string{{"token": {}}, {}},
	}
	problem := reg.Schema(reflect.TypeFor[v1.Problem](), true, "")
	for _, op := range operations() {
		doc.AddOperation(describeOperation(reg, op, problem))
	}
	for _, s := range reg.Map() {
		settle(s)
	}
	var out openapi
	var err error
	if out.json, err = json.MarshalIndent(doc, "", "  "); err != nil {
		return out, err
	}
	out.yaml, err = doc.YAML()
	return out, err
}

func describeOperation(reg huma.Registry, op operation, problem *huma.Schema) *huma.Operation {
	out := &huma.Operation{
		OperationID: op.name, Method: op.method, Path: op.path, Summary: op.summary, Description: op.about,
		Responses: map[string]*huma.Response{
			"default": {Description: "Error", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}}},
		},
	}
	for _, name := range pathParams(op.path) {
		out.Parameters = append(out.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range op.params {
		out.Parameters = append(out.Parameters, &huma.Param{Name: p.name, In: "query", Description: p.doc, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	if op.method == http.MethodPost {
		out.Parameters = append(out.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "repeated with the same key and body within 7 days, the request is carried out once and answered the same",
		})
	}
	if op.anybody {
		out.Security = []map[string][]string{{}}
	}
	if op.body != nil {
		out.RequestBody = &huma.RequestBody{Required: true, Content: jsonOf(reg, op.body)}
	}
	ok := &huma.Response{Description: http.StatusText(op.status)}
	status := op.status
	switch {
	case op.answer != nil:
		ok.Content = jsonOf(reg, op.answer)
	case op.stream != "":
		ok.Content = map[string]*huma.MediaType{op.stream: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	case op.status == http.StatusOK:
		status = http.StatusSwitchingProtocols
		ok.Description = "the connection becomes a WebSocket"
	}
	if op.paged {
		ok.Headers = map[string]*huma.Param{"Link": {
			Schema: &huma.Schema{Type: huma.TypeString}, Description: "where the next page is, if there is one: <?cursor=…>; rel=\"next\"",
		}}
	}
	out.Responses[strconv.Itoa(status)] = ok
	return out
}

func jsonOf(reg huma.Registry, t reflect.Type) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: reg.Schema(t, true, t.Name())}}
}

func pathParams(path string) []string {
	var out []string
	for _, part := range strings.Split(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			out = append(out, strings.TrimSuffix(name, "}"))
		}
	}
	return out
}

// settle says of lists that they aren't null: an empty one is [] or left out.
func settle(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Type == huma.TypeArray {
		s.Nullable = false
	}
	settle(s.Items)
	for _, p := range s.Properties {
		settle(p)
	}
}

// quantitySchema stands for v1.Quantity in the document: text or a number.
type quantitySchema struct{}

// Schema implements huma.SchemaProvider.
func (quantitySchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeNumber}},
		Description: "an amount as text, e.g. \"2\", \"0.5\", \"64G\" or \"2h\"; in requests also a number",
	}
}
