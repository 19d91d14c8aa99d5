"""The process runtime: runs containers as processes of this machine. Opt-in.

process_runtime    runs pods and serves their logs
image              images as programs of this machine
pod_worker         runs one pod: containers in order, status, termination
container_runner   runs one container: start, probes, restart, stop
process            a process in its own mount and host-name namespaces
descriptor         pipes and terminals of processes
container_session  exec and attach
sandbox_init       standalone program that sets up the namespaces
envvars            command line and environment of a container
value_sources      values of ConfigMaps, Secrets and the downward API
pod_volumes        volumes as folders
atomic_writer      files of a volume, replaced in one step
security_context   user, groups, capabilities
lifecycle_hook     postStart and preStop
probe              liveness, readiness and startup probes
container_log      log files of containers
process_usage      CPU time and memory of containers
resource_metrics   the metrics API of pods that run as processes
pod_dns            loopback addresses and names of pods and Services
dns_zone           records of Services and pods
dns_server         DNS over UDP and TCP
resolv_conf        DNS policy and configuration of a pod
pod_cgroup         cgroups that give the processes of a pod its address
bpf                BPF programs for the addresses of sockets
service_proxy      cluster IPs of Services on loopback
proxy_socket       the socket of a TCP port of a Service
proxy_datagrams    the socket of a UDP port of a Service
"""
