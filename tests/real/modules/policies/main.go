// Judges by NetworkPolicies who may reach whom. Reads {"policies": […], "namespaces": {name: labels}, "calls": […]} and prints a list
// of true and false, one for each call.
package main

import (
	"encoding/json"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// A peer without a namespace is outside of the cluster, or a node of it.
type peer struct {
	IP        string            `json:"ip"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
}

type call struct {
	From     peer   `json:"from"`
	To       peer   `json:"to"`
	Port     int    `json:"port"`
	PortName string `json:"portName"`
	Protocol string `json:"protocol"`
}

type world struct {
	Policies   []*networkingv1.NetworkPolicy `json:"policies"`
	Namespaces map[string]map[string]string  `json:"namespaces"`
	Calls      []call                        `json:"calls"`
}

func main() {
	var given world
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	policies := matcher.BuildNetworkPolicies(false, given.Policies)
	allowed := make([]bool, 0, len(given.Calls))
	for _, each := range given.Calls {
		traffic := matcher.Traffic{
			Source:           given.place(each.From),
			Destination:      given.place(each.To),
			ResolvedPort:     each.Port,
			ResolvedPortName: each.PortName,
			Protocol:         corev1.Protocol(each.Protocol),
		}
		allowed = append(allowed, policies.IsTrafficAllowed(&traffic).IsAllowed())
	}
	if err := json.NewEncoder(os.Stdout).Encode(allowed); err != nil {
		panic(err)
	}
}

func (given world) place(of peer) *matcher.TrafficPeer {
	if of.Namespace == "" {
		return &matcher.TrafficPeer{IP: of.IP}
	}
	inside := matcher.InternalPeer{PodLabels: of.Labels, NamespaceLabels: given.Namespaces[of.Namespace], Namespace: of.Namespace}
	return &matcher.TrafficPeer{IP: of.IP, Internal: &inside}
}
