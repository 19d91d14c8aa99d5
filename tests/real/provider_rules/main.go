// Command provider-rules prints which attributes of the google provider's resources force a replacement, exclude each other or have a
// fixed set of values: what the provider's protocol does not tell. It reads the sources without building them.
//
//	go run . CHECKOUT google_container_cluster=container google_storage_bucket=storage …
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

type rules struct {
	ForceNew    []string            `json:"force_new,omitempty"`
	ExactlyOne  [][]string          `json:"exactly_one_of,omitempty"`
	AtLeastOne  [][]string          `json:"at_least_one_of,omitempty"`
	Conflicts   map[string][]string `json:"conflicts,omitempty"`
	RequiredSet map[string][]string `json:"required_with,omitempty"`
	Values      map[string][]string `json:"values,omitempty"`
}

// source holds the declarations of one package.
type source struct {
	functions map[string]*ast.FuncDecl
	variables map[string]ast.Expr
}

func load(folder string) source {
	found := source{map[string]*ast.FuncDecl{}, map[string]ast.Expr{}}
	files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			panic(err)
		}
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					found.functions[d.Name.Name] = d
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						for i, ident := range v.Names {
							if i < len(v.Values) {
								found.variables[ident.Name] = v.Values[i]
							}
						}
					}
				}
			}
		}
	}
	return found
}

// resolve follows variables, pointers and calls to the composite literal behind an expression.
func (s source) resolve(expression ast.Expr) *ast.CompositeLit {
	switch e := expression.(type) {
	case *ast.CompositeLit:
		return e
	case *ast.UnaryExpr:
		return s.resolve(e.X)
	case *ast.ParenExpr:
		return s.resolve(e.X)
	case *ast.Ident:
		if value, ok := s.variables[e.Name]; ok {
			return s.resolve(value)
		}
	case *ast.CallExpr:
		if name, ok := e.Fun.(*ast.Ident); ok {
			if function, ok := s.functions[name.Name]; ok {
				return s.returned(function)
			}
		}
	}
	return nil
}

// returned is the literal that a function returns, also by way of a local variable.
func (s source) returned(function *ast.FuncDecl) *ast.CompositeLit {
	local := map[string]ast.Expr{}
	var result ast.Expr
	ast.Inspect(function.Body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if ident, ok := left.(*ast.Ident); ok && i < len(n.Rhs) {
					local[ident.Name] = n.Rhs[i]
				}
			}
		case *ast.ReturnStmt:
			if len(n.Results) > 0 {
				result = n.Results[0]
			}
		}
		return true
	})
	if ident, ok := result.(*ast.Ident); ok {
		if value, ok := local[ident.Name]; ok {
			result = value
		}
	}
	return s.resolve(result)
}

func field(literal *ast.CompositeLit, name string) ast.Expr {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return pair.Value
			}
		}
	}
	return nil
}

func (s source) text(expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil
	case *ast.Ident:
		if value, ok := s.variables[e.Name]; ok {
			return s.text(value)
		}
	}
	return "", false
}

func (s source) texts(expression ast.Expr) []string {
	literal := s.resolve(expression)
	if literal == nil {
		return nil
	}
	found := []string{}
	for _, element := range literal.Elts {
		value, ok := s.text(element)
		if !ok {
			return nil
		}
		found = append(found, value)
	}
	return found
}

// paths are references to attributes, without the index of their only block.
func (s source) paths(expression ast.Expr) []string {
	found := s.texts(expression)
	for i, path := range found {
		found[i] = strings.ReplaceAll(path, ".0.", ".")
	}
	return found
}

func (s source) walk(expression ast.Expr, prefix string, into *rules, depth int) {
	if call, ok := expression.(*ast.CallExpr); ok && depth < 12 {
		if _, known := call.Fun.(*ast.Ident); !known || s.resolve(call) == nil {
			for _, argument := range call.Args { // a merge of several maps
				s.walk(argument, prefix, into, depth+1)
			}
			return
		}
	}
	literal := s.resolve(expression)
	if literal == nil || depth > 12 {
		return
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, ok := s.text(pair.Key)
		if !ok {
			continue
		}
		attribute := s.resolve(pair.Value)
		if attribute == nil {
			continue
		}
		path := prefix + name
		if ident, ok := field(attribute, "ForceNew").(*ast.Ident); ok && ident.Name == "true" {
			into.ForceNew = append(into.ForceNew, path)
		}
		if paths := s.paths(field(attribute, "ConflictsWith")); paths != nil {
			into.Conflicts[path] = paths
		}
		if paths := s.paths(field(attribute, "RequiredWith")); paths != nil {
			into.RequiredSet[path] = paths
		}
		if paths := s.paths(field(attribute, "ExactlyOneOf")); paths != nil {
			into.ExactlyOne = append(into.ExactlyOne, append(paths, path))
		}
		if paths := s.paths(field(attribute, "AtLeastOneOf")); paths != nil {
			into.AtLeastOne = append(into.AtLeastOne, append(paths, path))
		}
		if call, ok := field(attribute, "ValidateFunc").(*ast.CallExpr); ok && len(call.Args) > 0 {
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && (selector.Sel.Name == "StringInSlice" || selector.Sel.Name == "ValidateEnum") {
				if values := s.texts(call.Args[0]); values != nil {
					into.Values[path] = values
				}
			}
		}
		if inner := s.resolve(field(attribute, "Elem")); inner != nil {
			if nested := field(inner, "Schema"); nested != nil {
				s.walk(nested, path+".", into, depth+1)
			}
		}
	}
}

func unique(groups [][]string) [][]string {
	seen, kept := map[string]bool{}, [][]string{}
	for _, group := range groups {
		group = slices.Compact(slices.Sorted(slices.Values(group)))
		if key := strings.Join(group, ","); !seen[key] {
			seen[key] = true
			kept = append(kept, group)
		}
	}
	sort.Slice(kept, func(i, j int) bool { return strings.Join(kept[i], ",") < strings.Join(kept[j], ",") })
	return kept
}

func main() {
	packages, output := map[string]source{}, map[string]*rules{}
	for _, argument := range os.Args[2:] {
		resource, name, _ := strings.Cut(argument, "=")
		if _, ok := packages[name]; !ok {
			packages[name] = load(filepath.Join(os.Args[1], "google/services", name))
		}
		s := packages[name]
		wanted := "resource" + strings.ReplaceAll(strings.TrimPrefix(resource, "google_"), "_", "")
		found := &rules{Conflicts: map[string][]string{}, RequiredSet: map[string][]string{}, Values: map[string][]string{}}
		for function, declaration := range s.functions {
			lower := strings.Replace(strings.ToLower(function), "gkehub2", "gkehub", 1)
			if lower == wanted || strings.Replace(lower, "google", "", 1) == wanted {
				if literal := s.returned(declaration); literal != nil {
					s.walk(field(literal, "Schema"), "", found, 0)
				}
			}
		}
		if len(found.ForceNew) == 0 {
			fmt.Fprintln(os.Stderr, "nothing found for", resource)
		}
		sort.Strings(found.ForceNew)
		found.ExactlyOne, found.AtLeastOne = unique(found.ExactlyOne), unique(found.AtLeastOne)
		output[resource] = found
	}
	encoded, _ := json.MarshalIndent(output, "", " ")
	fmt.Println(string(encoded))
}
