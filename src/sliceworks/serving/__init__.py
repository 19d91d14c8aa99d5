"""Model serving: compile a ModelService into Kubernetes objects, roll it out, and run the gateway in front of its servers.

validation        checks a ModelService beyond its schema
sax_classes       model classes of each Sax release
hardware          accelerator, resources and price of a replica; memory of a model
compiler          compiles a ModelService into Kubernetes objects
objects           labels, and the objects around pods
pod_spec          pod specs of model servers
workload          Deployments per version, StatefulSets per multi-host slice, and their Services
saxml, triton, jetstream, vllm   the objects of each engine
gateway_objects   the Gateway document of model services, and the objects that run the gateway
ingress_route     routes from outside the cluster: Gateway API or Istio
record            the record of a deployed service in a ConfigMap
service_status    status of workloads and autoscalers
cluster           reads services from a cluster
ownership         shared gateways, and deletion of owned objects
rollout           applies a service and waits until it is ready
publication       loads, unloads or changes a model of a deployed service
service_endpoint  the endpoint of a service and connections to it
engine_protocol   inference requests in each engine's protocol
image_input       images as model input
sample_model      a model repository for Triton with a small ONNX classifier
gateway           the inference gateway
"""
