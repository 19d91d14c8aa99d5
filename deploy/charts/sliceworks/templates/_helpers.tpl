{{/* Labels of every object of a component. */}}
{{- define "sliceworks.labels" -}}
app.kubernetes.io/name: sliceworks
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* An image of this version; the list: root, name. */}}
{{- define "sliceworks.image" -}}
{{- $root := index . 0 -}}
{{- $tag := $root.Values.image.tag | default $root.Chart.AppVersion -}}
{{- $registry := required "image.registry: set the registry that has the images, such as us-docker.pkg.dev/PROJECT/REPOSITORY" $root.Values.image.registry -}}
{{- printf "%s/%s:%s" (trimSuffix "/" $registry) (index . 1) $tag -}}
{{- with index $root.Values.image.digests (index . 1) }}@{{ . }}{{ end -}}
{{- end }}

{{/* The namespace of a component, unless the release has the same one; the list: root, component, namespace, whether `helm uninstall` keeps it. */}}
{{- define "sliceworks.namespace" -}}
{{- $root := index . 0 -}}
{{- if and $root.Values.namespaces.create (ne (index . 2) $root.Release.Namespace) }}
---
apiVersion: v1
kind: Namespace
metadata:
  name: {{ index . 2 }}
  labels:
    {{- include "sliceworks.labels" (index . 1) | nindent 4 }}
    pod-security.kubernetes.io/enforce: restricted
  {{- if index . 3 }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
{{- end }}
{{- end }}

{{/* The fields that the pods of all components share; the list: root, component values, pod labels, component. */}}
{{- define "sliceworks.pod" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- if $root.Values.priorityClass.create }}
priorityClassName: sliceworks-{{ index . 3 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- index $ 2 | toYaml | nindent 8 }}
  {{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What protects the pods of a component: a priority class, a budget, a network policy. The list: root, component, name, namespace, pod labels, ingress rules. */}}
{{- define "sliceworks.protection" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- if $root.Values.priorityClass.create }}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: sliceworks-{{ $component }}
  labels: {{- include "sliceworks.labels" $component | nindent 4 }}
value: {{ int $root.Values.priorityClass.value }}
description: Pods of the {{ $component }} component of Sliceworks.
{{- end }}
{{- if $root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ index . 2 }}
  namespace: {{ index . 3 }}
  labels: {{- include "sliceworks.labels" $component | nindent 4 }}
spec:
  maxUnavailable: 1
  # A pod that is not ready does no work: it may always be evicted.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- index . 4 | toYaml | nindent 6 }}
{{- end }}
{{- if $root.Values.networkPolicy.enabled }}
---
# Probes of the kubelet always pass.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ index . 2 }}
  namespace: {{ index . 3 }}
  labels: {{- include "sliceworks.labels" $component | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- index . 4 | toYaml | nindent 6 }}
  policyTypes: [Ingress]
  ingress: {{- index . 5 | nindent 4 }}
{{- end }}
{{- end }}

{{/* Peers that may read metrics. */}}
{{- define "sliceworks.scrapers" -}}
- namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ toJson .Values.networkPolicy.scrapers }}
{{ include "sliceworks.testers" . }}
{{- end }}

{{/* The pods of `helm test`. */}}
{{- define "sliceworks.testers" -}}
- namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ toJson (list .Values.graphs.namespace .Values.slices.namespace .Values.gateway.namespace) }}
  podSelector:
    matchLabels: {{- include "sliceworks.labels" "test" | nindent 6 }}
{{- end }}

{{/* Ingress rules of a controller. */}}
{{- define "sliceworks.metrics-ingress" -}}
- from: {{- include "sliceworks.scrapers" . | nindent 4 }}
  ports:
    - port: metrics
      protocol: TCP
{{- end }}

{{/* How Prometheus finds a component. The list: root, component, name, namespace, pod labels, port. */}}
{{- define "sliceworks.monitoring" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- with $root.Values.monitoring.serviceMonitor }}
{{- if .enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ index $ 2 }}
  namespace: {{ index $ 3 }}
  labels:
    {{- include "sliceworks.labels" $component | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels: {{- include "sliceworks.labels" $component | nindent 6 }}
  endpoints:
    - port: {{ index $ 5 }}
      interval: {{ .interval }}
{{- end }}
{{- end }}
{{- with $root.Values.monitoring.podMonitoring }}
{{- if .enabled }}
---
apiVersion: monitoring.googleapis.com/v1
kind: PodMonitoring
metadata:
  name: {{ index $ 2 }}
  namespace: {{ index $ 3 }}
  labels: {{- include "sliceworks.labels" $component | nindent 4 }}
spec:
  selector:
    matchLabels: {{- index $ 4 | toYaml | nindent 6 }}
  endpoints:
    - port: {{ index $ 5 }}
      interval: {{ .interval }}
{{- end }}
{{- end }}
{{- include "sliceworks.rules" . }}
{{- end }}

{{/* Alerts and the dashboard of a component. The list: root, component, name, namespace. */}}
{{- define "sliceworks.rules" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- if $root.Values.monitoring.prometheusRule.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ index . 2 }}
  namespace: {{ index . 3 }}
  labels:
    {{- include "sliceworks.labels" $component | nindent 4 }}
    {{- with $root.Values.monitoring.prometheusRule.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec: {{- $root.Files.Get (printf "rules/%s.yaml" $component) | nindent 2 }}
{{- end }}
{{- if $root.Values.monitoring.googleRules.enabled }}
---
apiVersion: monitoring.googleapis.com/v1
kind: Rules
metadata:
  name: {{ index . 2 }}
  namespace: {{ index . 3 }}
  labels: {{- include "sliceworks.labels" $component | nindent 4 }}
spec: {{- $root.Files.Get (printf "rules/%s.yaml" $component) | nindent 2 }}
{{- end }}
{{- if $root.Values.monitoring.dashboards.enabled }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ index . 2 }}-dashboard
  namespace: {{ index . 3 }}
  labels:
    {{- include "sliceworks.labels" $component | nindent 4 }}
    {{- toYaml $root.Values.monitoring.dashboards.labels | nindent 4 }}
data:
  sliceworks-{{ $component }}.json: {{- printf " |-" }}
    {{- $root.Files.Get (printf "dashboards/%s.json" $component) | trim | nindent 4 }}
{{- end }}
{{- end }}

{{/* The Deployment of a controller. The list: root, component, name, namespace, pod labels, container name, metrics port, health port, metrics Service. */}}
{{- define "sliceworks.controller" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- $values := index $root.Values $component }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ index . 2 }}
  namespace: {{ index . 3 }}
  labels:
    {{- include "sliceworks.labels" $component | nindent 4 }}
    app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
    {{- if eq $component "slices" }}
    control-plane: controller-manager
    {{- end }}
spec:
  replicas: {{ int $values.replicas }}
  # The standby replica takes the Lease over when the old leader releases it.
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  selector:
    matchLabels: {{- index . 4 | toYaml | nindent 6 }}
  template:
    metadata:
      labels: {{- index . 4 | toYaml | nindent 8 }}
      {{- $annotations := $values.podAnnotations }}
      {{- if eq $component "slices" }}
      {{- $annotations = merge (dict "checksum/settings" (toJson $values.settings | sha256sum)) $annotations }}
      {{- end }}
      {{- with $annotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ index . 2 }}
      terminationGracePeriodSeconds: 10
      {{- include "sliceworks.pod" (list $root $values (index . 4) $component) | trim | nindent 6 }}
      containers:
        - name: {{ index . 5 }}
          image: {{ include "sliceworks.image" (list $root "controllers") }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [sliceworks]
          args:
            - controller
            - run
            - {{ $component }}
            - --leader-elect
            - --metrics-bind-address=:{{ index . 6 }}
            - --health-probe-bind-address=:{{ index . 7 }}
            - --stall-timeout={{ $root.Values.stallTimeout }}
            {{- if and (eq $component "graphs") $root.Values.crds.enabled }}
            - --no-install-crds
            {{- end }}
            {{- with $values.args }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- if eq $component "slices" }}
          envFrom:
            - configMapRef:
                name: tpu-provisioner-manager
          {{- end }}
          ports:
            - name: metrics
              containerPort: {{ index . 6 }}
            - name: health
              containerPort: {{ index . 7 }}
          startupProbe:
            httpGet:
              path: /healthz
              port: health
            periodSeconds: 2
            failureThreshold: 30
          livenessProbe:
            httpGet:
              path: /healthz
              port: health
            periodSeconds: 20
            timeoutSeconds: 5
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            periodSeconds: 10
            timeoutSeconds: 5
          resources: {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: scratch
              mountPath: /tmp
      volumes:
        - name: scratch
          emptyDir: {}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ index . 8 }}
  namespace: {{ index . 3 }}
  labels: {{- include "sliceworks.labels" $component | nindent 4 }}
spec:
  selector: {{- index . 4 | toYaml | nindent 4 }}
  ports:
    - name: metrics
      port: {{ index . 6 }}
      targetPort: metrics
{{- end }}

{{/* Bind a role to the service account of a component. The list: kind of binding, role, name, component, account, namespace. */}}
{{- define "sliceworks.binding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ index . 0 }}Binding
metadata:
  name: {{ index . 2 }}
  {{- if eq (index . 0) "Role" }}
  namespace: {{ index . 5 }}
  {{- end }}
  labels: {{- include "sliceworks.labels" (index . 3) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 0 }}
  name: {{ index . 1 }}
subjects:
  - kind: ServiceAccount
    name: {{ index . 4 }}
    namespace: {{ index . 5 }}
{{- end }}

{{/* Permissions for one Lease. The list: name, component, namespace, Lease. */}}
{{- define "sliceworks.election" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ index . 0 }}
  namespace: {{ index . 2 }}
  labels: {{- include "sliceworks.labels" (index . 1) | nindent 4 }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ index . 3 }}]
    verbs: [get, update]
{{- end }}
