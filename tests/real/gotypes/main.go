// Prints, for every type the Kubernetes scheme knows, how Go reads and writes its fields:
//
//	{"io.k8s.api.core.v1.PodSpec": {"replicas": "po int32", "hostPath": "po v1.HostPathVolumeSource VolumeSource"}}
//
// The first word holds flags: p pointer, o omitempty, z omitzero, s struct, - none of them.
// The second is the Go type, the third (if any) the embedded structs the field comes from.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var found = map[string]map[string]string{}

func main() {
	for _, known := range scheme.Scheme.AllKnownTypes() {
		visit(known)
	}
	for _, object := range []any{
		apiextensions.CustomResourceDefinitionList{}, apiextensions.ConversionReview{}, apiregistration.APIServiceList{}, metav1.Status{},
	} {
		visit(reflect.TypeOf(object))
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}

func visit(kind reflect.Type) {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		visit(kind.Elem())
		return
	case reflect.Struct:
	default:
		return
	}
	name := component(kind)
	ownReader := reflect.PointerTo(kind).Implements(reflect.TypeFor[json.Unmarshaler]())
	if !strings.HasPrefix(name, "io.k8s.") || found[name] != nil || ownReader {
		return
	}
	found[name] = map[string]string{}
	fields(kind, name, "")
}

func fields(kind reflect.Type, owner, embedded string) {
	for i := range kind.NumField() {
		field := kind.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if !field.IsExported() || tag[0] == "-" {
			continue
		}
		if field.Anonymous && tag[0] == "" {
			fields(field.Type, owner, strings.TrimPrefix(embedded+"."+field.Name, "."))
			continue
		}
		found[owner][tag[0]] = strings.TrimSpace(flags(field.Type, tag) + " " + strings.TrimPrefix(field.Type.String(), "*") + " " + embedded)
		visit(field.Type)
	}
}

func flags(kind reflect.Type, tag []string) string {
	text := ""
	if kind.Kind() == reflect.Pointer {
		text += "p"
	}
	for _, option := range tag[1:] {
		switch option {
		case "omitempty":
			text += "o"
		case "omitzero":
			text += "z"
		}
	}
	if kind.Kind() == reflect.Struct {
		text += "s"
	}
	if text == "" {
		return "-"
	}
	return text
}

func component(kind reflect.Type) string {
	host, rest, _ := strings.Cut(kind.PkgPath(), "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + kind.Name()
}
