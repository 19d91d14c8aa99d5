// Asks kro's own compiler and evaluator about definitions, without any cluster.
//
// Usage: compiler FOLDER < requests > answers
//
// FOLDER holds kinds.json and the schema of each kind as GROUP_VERSION_KIND.json. Requests and answers are one JSON object a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/kubernetes-sigs/kro/api/v1alpha1"
	"github.com/kubernetes-sigs/kro/pkg/features"
	"github.com/kubernetes-sigs/kro/pkg/graph"
	"github.com/kubernetes-sigs/kro/pkg/runtime"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

type object = map[string]any

// request is a definition, an instance of it and what a cluster has. Resources that are not observed are as they are desired.
type request struct {
	Definition *v1alpha1.ResourceGraphDefinition
	Instance   object
	Observed   map[string][]object
	Conditions []v1alpha1.Condition
}

type kind struct {
	Group, Version, Kind, Plural string
	Namespaced                   bool
}

// folder finds schemas in files.
type folder string

func (f folder) ResolveSchema(of schema.GroupVersionKind) (*spec.Schema, error) {
	name := strings.ReplaceAll(of.GroupVersion().String(), "/", "_") + "_" + of.Kind + ".json"
	text, err := os.ReadFile(filepath.Join(string(f), name))
	if err != nil {
		return nil, fmt.Errorf("no schema of %s", of)
	}
	found := &spec.Schema{}
	return found, json.Unmarshal(text, found)
}

func (f folder) mapper() (meta.RESTMapper, error) {
	text, err := os.ReadFile(filepath.Join(string(f), "kinds.json"))
	if err != nil {
		return nil, err
	}
	var kinds []kind
	if err := json.Unmarshal(text, &kinds); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, one := range kinds {
		scope := meta.RESTScopeRoot
		if one.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		version := schema.GroupVersion{Group: one.Group, Version: one.Version}
		singular := version.WithResource(strings.ToLower(one.Kind))
		mapper.AddSpecific(version.WithKind(one.Kind), version.WithResource(one.Plural), singular, scope)
	}
	return mapper, nil
}

func main() {
	if err := run(folder(os.Args[1])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kinds folder) error {
	if err := features.FeatureGate.SetFromMap(map[string]bool{"CELOmitFunction": true}); err != nil {
		return err
	}
	mapper, err := kinds.mapper()
	if err != nil {
		return err
	}
	builder, err := graph.NewBuilder(
		&rest.Config{}, &http.Client{}, graph.WithSchemaResolver(kinds), graph.WithRESTMapper(mapper))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		fmt.Println(answer(builder, lines.Bytes()))
	}
	return lines.Err()
}

// answer says what kro makes of one request; what it cannot write down as JSON counts as refused.
func answer(builder *graph.Builder, line []byte) string {
	said := object{}
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		said["error"] = err.Error()
	} else {
		judge(builder, asked, said)
	}
	text, err := json.Marshal(said)
	if err != nil {
		text, _ = json.Marshal(object{"error": err.Error()})
	}
	return string(text)
}

func judge(builder *graph.Builder, asked request, said object) {
	if asked.Definition.Spec.Schema.Group == "" {
		asked.Definition.Spec.Schema.Group = "kro.run"
	}
	config := graph.Config{MaxCollectionSize: 1000, MaxCollectionDimensionSize: 10}
	compiled, err := builder.NewResourceGraphDefinition(asked.Definition, config)
	if err != nil {
		said["error"] = err.Error()
		return
	}
	said["crd"], said["order"], said["applyOrders"] = compiled.CRD, compiled.TopologicalOrder, compiled.ApplyOrders
	dependencies := map[string][]string{}
	for id, node := range compiled.Nodes {
		dependencies[id] = node.Meta.Dependencies
	}
	said["dependencies"] = dependencies
	instance := &unstructured.Unstructured{Object: whole(asked.Instance).(object)}
	playing, err := runtime.FromGraph(compiled, config, runtime.WithInstance(instance))
	if err != nil {
		said["error"] = err.Error()
		return
	}
	evaluate(playing, asked, said)
}

func evaluate(playing *runtime.Runtime, asked request, said object) {
	nodes := object{}
	for _, node := range playing.Nodes() {
		nodes[node.Spec.Meta.ID] = resolve(node, asked)
	}
	said["nodes"] = nodes
	status, err := playing.Instance().GetDesired()
	if err != nil {
		said["statusError"] = err.Error()
	} else if len(status) > 0 {
		said["status"] = status[0].Object["status"]
	}
	if playing.Instance().HasConditions() {
		found, incomplete, err := playing.Instance().EvaluateConditions(logr.Discard(), asked.Conditions)
		said["conditions"], said["incomplete"], said["degraded"] = found, incomplete, err != nil
	}
}

func resolve(node *runtime.Node, asked request) object {
	ignored, err := node.IsIgnored()
	if err != nil {
		return object{"error": err.Error(), "pending": runtime.IsDataPending(err)}
	}
	if ignored {
		return object{"ignored": true}
	}
	desired, err := node.GetDesired()
	if err != nil {
		return object{"error": err.Error(), "pending": runtime.IsDataPending(err)}
	}
	made, seen := []object{}, []*unstructured.Unstructured{}
	for _, one := range desired {
		made, seen = append(made, one.DeepCopy().Object), append(seen, one.DeepCopy())
	}
	if given, ok := asked.Observed[node.Spec.Meta.ID]; ok {
		seen = []*unstructured.Unstructured{}
		for _, one := range given {
			seen = append(seen, &unstructured.Unstructured{Object: whole(one).(object)})
		}
	}
	node.SetObserved(seen)
	said := object{"desired": made}
	if err := node.CheckReadiness(); err != nil {
		said["unready"] = err.Error()
	}
	return said
}

// whole makes integers of whole numbers, as Kubernetes' own reader of JSON does.
func whole(value any) any {
	switch one := value.(type) {
	case object:
		for name, child := range one {
			one[name] = whole(child)
		}
	case []any:
		for index, child := range one {
			one[index] = whole(child)
		}
	case float64:
		if one == float64(int64(one)) {
			return int64(one)
		}
	}
	return value
}
