// Prints, for every type the Kubernetes scheme knows, how its fields stand on the protobuf wire:
//
//	{"io.k8s.api.core.v1.Volume": {"1": "name s", "2": " m io.k8s.api.core.v1.VolumeSource"}}
//
// A value holds the JSON name (none for a struct whose fields stand among its owner's), a mark, and for messages the component.
// Marks: s string, i integer, b boolean, f double, B bytes, m message; before it `*` pointer, `[]` repeated, `{}` map by text.
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
		apiextensions.CustomResourceDefinitionList{}, apiregistration.APIServiceList{}, metav1.Status{}, metav1.DeleteOptions{},
		metav1.PartialObjectMetadataList{},
	} {
		visit(reflect.TypeOf(object))
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}

func visit(kind reflect.Type) {
	name := component(kind)
	if kind.Kind() != reflect.Struct || found[name] != nil {
		return
	}
	found[name] = map[string]string{}
	for i := range kind.NumField() {
		field := kind.Field(i)
		wire := strings.Split(field.Tag.Get("protobuf"), ",")
		if !field.IsExported() || len(wire) < 2 {
			continue
		}
		text := strings.Split(field.Tag.Get("json"), ",")[0]
		found[name][wire[1]] = strings.TrimRight(text+" "+mark(field.Type, ""), " ")
	}
}

func mark(kind reflect.Type, before string) string {
	switch kind.Kind() {
	case reflect.Pointer:
		return mark(kind.Elem(), before+"*")
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return before + "B"
		}
		if kind.Name() != "" && kind.Implements(reflect.TypeFor[interface{ ProtoMessage() }]()) {
			return before + "m " + component(kind)
		}
		return mark(kind.Elem(), before+"[]")
	case reflect.Map:
		return mark(kind.Elem(), before+"{}")
	case reflect.String:
		return before + "s"
	case reflect.Bool:
		return before + "b"
	case reflect.Float32, reflect.Float64:
		return before + "f"
	case reflect.Struct:
		visit(kind)
		return before + "m " + component(kind)
	default:
		return before + "i"
	}
}

func component(kind reflect.Type) string {
	host, rest, _ := strings.Cut(kind.PkgPath(), "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + kind.Name()
}
