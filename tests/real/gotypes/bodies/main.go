// Prints, for every kind of the group versions named as arguments, two objects, each on a line: one with all its fields filled, and
// one with pointers, lists and maps of nothing but zero values:
//
//	{"kind": "v1 Pod", "protobuf": "azhzAAoJ…", "json": {"kind": "Pod", …}}
//
// go run -C tests/real/gotypes ./bodies GROUPVERSION… > tests/schemas/protobuf_bodies.jsonl
//
// Both forms are written by Kubernetes' own serializers, so a reader of protobuf can be held against the JSON.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Kinds that clients do not send.
var unserved = []string{
	"APIGroup", "APIVersions", "ComponentStatus", "ConversionReview", "PodStatusResult", "RangeAllocation", "SerializedReference",
}

var (
	random = rand.New(rand.NewSource(1))
	zero   bool
)

func main() {
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(scheme.Scheme); err != nil {
			panic(err)
		}
	}
	writer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for i, kind := range append(kinds(), kinds()...) {
		zero = i >= len(kinds())
		object, err := scheme.Scheme.New(kind)
		if err != nil {
			panic(err)
		}
		fill(reflect.ValueOf(object).Elem(), 0)
		object.GetObjectKind().SetGroupVersionKind(kind)
		var body bytes.Buffer
		if err := writer.Encode(object, &body); err != nil {
			panic(err)
		}
		line := map[string]any{"kind": kind.GroupVersion().String() + " " + kind.Kind, "protobuf": body.Bytes(), "json": object}
		if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
			panic(err)
		}
	}
}

func kinds() []schema.GroupVersionKind {
	var found []schema.GroupVersionKind
	for kind := range scheme.Scheme.AllKnownTypes() {
		if slices.Contains(unserved, kind.Kind) {
			continue
		}
		options := strings.HasSuffix(kind.Kind, "List") || strings.HasSuffix(kind.Kind, "Options") || kind.Kind == "WatchEvent"
		if slices.Contains(os.Args[1:], kind.GroupVersion().String()) && (!options || kind.Kind == "DeleteOptions") {
			found = append(found, kind)
		}
	}
	slices.SortFunc(found, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// What is written in another form in JSON than its fields say.
func special(value reflect.Value, depth int) bool {
	if zero {
		switch value.Addr().Interface().(type) {
		case *metav1.Time, *metav1.MicroTime, *metav1.Duration, *resource.Quantity, *intstr.IntOrString:
			return true
		}
	}
	moment := time.Date(2026, 1, 2, 3, 4, random.Intn(60), 0, time.UTC)
	number := random.Intn(1000) + 1
	switch target := value.Addr().Interface().(type) {
	case *metav1.Time:
		*target = metav1.NewTime(moment)
	case *metav1.MicroTime:
		*target = metav1.NewMicroTime(moment.Add(time.Duration(number) * time.Microsecond))
	case *metav1.Duration:
		target.Duration = time.Duration(number) * 1234 * time.Millisecond
	case *resource.Quantity:
		*target = resource.MustParse(fmt.Sprintf("%d%s", number, []string{"", "m", "Mi", "Gi", "k"}[random.Intn(5)]))
	case *intstr.IntOrString:
		*target = []intstr.IntOrString{intstr.FromInt32(int32(number)), intstr.FromString(fmt.Sprintf("%d%%", number%100))}[random.Intn(2)]
	case *metav1.FieldsV1:
		target.Raw = []byte(fmt.Sprintf(`{"f:a%d":{".":{}}}`, number))
	case *runtime.RawExtension:
		target.Raw = []byte(fmt.Sprintf(`{"a":[%d,"x"]}`, number))
	case *apiextensions.JSON:
		target.Raw = []byte([]string{`1`, `"x"`, `{"a":[1]}`, `null`, `true`, `2.5`}[random.Intn(6)])
	case *apiextensions.JSONSchemaPropsOrBool:
		if random.Intn(2) == 0 {
			*target = apiextensions.JSONSchemaPropsOrBool{Allows: true}
		} else {
			*target = apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensions.JSONSchemaProps{Type: "string"}}
		}
	case *apiextensions.JSONSchemaPropsOrArray:
		*target = apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{Type: "string"}}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		*target = apiextensions.JSONSchemaPropsOrStringArray{Property: []string{"a", "b"}}
	case *apiextensions.JSONSchemaProps:
		return depth > 8
	case *corev1.PodSpec:
		// A pod shows its spec; the many kinds with a template of one need not repeat it.
		if depth == 1 {
			return false
		}
		target.Containers = []corev1.Container{{Name: "main"}}
	case *metav1.TypeMeta:
	default:
		return false
	}
	return true
}

func fill(value reflect.Value, depth int) {
	if value.CanAddr() && special(value, depth) {
		return
	}
	if zero && value.Kind() != reflect.Pointer && value.Kind() != reflect.Struct && value.Kind() != reflect.Slice && value.Kind() != reflect.Map {
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), depth+1)
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				fill(value.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1+random.Intn(2), 2))
		for i := range value.Len() {
			fill(value.Index(i), depth+1)
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(item, depth+1)
		value.SetMapIndex(key, item)
	case reflect.String:
		value.SetString(fmt.Sprintf("%s-ß%d", strings.ToLower(value.Type().Name()), random.Intn(100)))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(int64(random.Intn(2000) - 1000))
	case reflect.Uint8:
		value.SetUint(uint64(random.Intn(256)))
	case reflect.Float64:
		value.SetFloat(float64(random.Intn(100)) / 4)
	default:
		panic(value.Type())
	}
}
