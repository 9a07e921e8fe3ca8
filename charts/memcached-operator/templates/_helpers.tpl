{{/* The chart's name, or what takes its place. */}}
{{- define "memcached-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of every object. At most 52 characters, so that a suffix fits a label value and a Service's name. */}}
{{- define "memcached-operator.fullname" -}}
{{- $name := include "memcached-operator.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the operator's pods. Never changes for a release: a Deployment's selector cannot. */}}
{{- define "memcached-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "memcached-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* The same as an option has it: KEY=VALUE, with commas between. The namespace comes from the pod itself: kustomize may move
the pods to another one. */}}
{{- define "memcached-operator.podLabels" -}}
{{- $labels := list -}}
{{- range $key, $value := include "memcached-operator.selectorLabels" . | fromYaml -}}
{{- $labels = append $labels (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $labels -}}
{{- end -}}

{{/* Labels of every object. Selectors rely on them. */}}
{{- define "memcached-operator.labels" -}}
{{- $own := include "memcached-operator.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- $own | toYaml -}}
{{- end -}}

{{/* The metadata of an object: (list . "name"), and after these maps of more labels and of more annotations. Of two labels with
the same key the chart's own win over those of the object, and these over commonLabels: selectors rely on them in this order. */}}
{{- define "memcached-operator.metadata" -}}
{{- $root := index . 0 -}}
{{- $labels := include "memcached-operator.labels" $root | fromYaml -}}
{{- $annotations := dict -}}
{{- if gt (len .) 2 -}}{{- $labels = merge $labels (index . 2) -}}{{- end -}}
{{- $labels = merge $labels $root.Values.commonLabels -}}
{{- if gt (len .) 3 -}}{{- $annotations = merge $annotations (index . 3) -}}{{- end -}}
{{- $annotations = merge $annotations $root.Values.commonAnnotations -}}
name: {{ index . 1 | quote }}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The ServiceAccount's name. */}}
{{- define "memcached-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "memcached-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The Lease's name. */}}
{{- define "memcached-operator.leaseName" -}}
{{- default (include "memcached-operator.fullname" .) .Values.leaderElection.leaseName -}}
{{- end -}}

{{/* An image as image.registry has it: (list . "image"). One that names a registry stays: what is before its first slash has
a dot or a port there. */}}
{{- define "memcached-operator.fromRegistry" -}}
{{- $image := index . 1 -}}
{{- $first := splitList "/" $image | first -}}
{{- $named := and (contains "/" $image) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- with (index . 0).Values.image.registry -}}
{{- if $named }}{{ $image }}{{ else }}{{ printf "%s/%s" (trimSuffix "/" .) $image }}{{ end -}}
{{- else -}}
{{ $image }}
{{- end -}}
{{- end -}}

{{/* Where the operator is published, as values.yaml says it. */}}
{{- define "memcached-operator.published" -}}
ghcr.io/c5c3/memcached-operator-rs
{{- end -}}

{{/* The repository. The values of the Go operator's chart name that operator's image: kept, they mean this operator. */}}
{{- define "memcached-operator.repository" -}}
{{- if eq .Values.image.repository "ghcr.io/c5c3/memcached-operator" -}}
{{- if or .Values.image.tag .Values.image.digest -}}
{{- fail "image.repository is the Go operator's, and image.tag or image.digest names a version of it. Remove image.repository, image.tag and image.digest from your values" -}}
{{- end -}}
{{ include "memcached-operator.published" . }}
{{- else -}}
{{ .Values.image.repository }}
{{- end -}}
{{- end -}}

{{/* The operator's image, by digest where there is one. The registry takes the place of the one in the default. */}}
{{- define "memcached-operator.image" -}}
{{- $repository := include "memcached-operator.repository" . -}}
{{- if and .Values.image.registry (eq $repository (include "memcached-operator.published" .)) -}}
{{- $repository = trimPrefix "ghcr.io/" $repository -}}
{{- end -}}
{{- $repository = include "memcached-operator.fromRegistry" (list . $repository) -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default $.Chart.AppVersion | replace "+" "_" }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The options for the images of caches; none where everything is as published. */}}
{{- define "memcached-operator.cacheImages" -}}
{{- $registry := .Values.image.registry -}}
{{- $images := .Values.cacheImages -}}
{{- with $images.memcached | default (ternary "library/memcached:1.6" "" (not (empty $registry))) }}
- --memcached-image={{ include "memcached-operator.fromRegistry" (list $ .) }}
{{- end }}
{{- with $images.exporter | default (ternary "prom/memcached-exporter:v0.15.4" "" (not (empty $registry))) }}
- --exporter-image={{ include "memcached-operator.fromRegistry" (list $ .) }}
{{- end }}
{{- $elsewhere := or $registry .Values.image.digest (ne (include "memcached-operator.repository" .) (include "memcached-operator.published" .)) -}}
{{- if $images.operator }}
- --operator-image={{ include "memcached-operator.fromRegistry" (list . $images.operator) }}
{{- else if $elsewhere }}
- --operator-image={{ include "memcached-operator.image" . }}
{{- end }}
{{- end -}}

{{/* The name of the port at which metrics are served. */}}
{{- define "memcached-operator.metricsPort" -}}
{{ ternary "https-metrics" "http" .Values.secureMetrics.enabled }}
{{- end -}}

{{/* The ServiceAccount as the subject of a binding. */}}
{{- define "memcached-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "memcached-operator.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{/* What the operator may do in each namespace that it works in. */}}
{{- define "memcached-operator.rules" -}}
# Learn what is wanted.
- {apiGroups: [memcached.c5c3.io], resources: [memcacheds], verbs: [list, watch]}
# Say what came of it.
- {apiGroups: [memcached.c5c3.io], resources: [memcacheds/status], verbs: [patch]}
# The caches' pods, by one of two kinds: the other is deleted when a resource asks for this one. An apply needs patch, and
# create where it creates; get looks what is in its way.
- {apiGroups: [apps], resources: [deployments, statefulsets], verbs: [list, watch, get, create, patch, delete]}
# Where clients find a cache.
- {apiGroups: [""], resources: [services], verbs: [list, watch, get, create, patch]}
# The same for applications, to mount or to take as environment.
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch, get, create, patch]}
# Who may talk to a cache. From here on the objects are features, and deleted when those are switched off.
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [list, watch, get, create, patch, delete]}
# How many pods of a cache a drain may take.
- {apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [list, watch, get, create, patch, delete]}
# How many pods a cache has under load.
- {apiGroups: [autoscaling], resources: [horizontalpodautoscalers], verbs: [list, watch, get, create, patch, delete]}
# Where Prometheus finds a cache's metrics. Harmless where the kind does not exist.
- {apiGroups: [monitoring.coreos.com], resources: [servicemonitors], verbs: [list, watch, get, create, patch, delete]}
# Why a pod is not ready. Delete is for a pod of a StatefulSet that does not run and keeps a rollout from going on: no other
# is ever deleted.
- {apiGroups: [""], resources: [pods], verbs: [list, watch, delete]}
# That a Secret changed (its metadata); and the content of those that a Memcached names, of which only a hash is kept.
- {apiGroups: [""], resources: [secrets], verbs: [list, watch, get]}
# Tell about a resource; patch counts what is said again.
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
{{- if .Values.rbac.ownerReferences }}
# Own all these objects. Here and below the admission plugin OwnerReferencesPermissionEnforcement asks, where it is on.
- {apiGroups: [memcached.c5c3.io], resources: [memcacheds/finalizers], verbs: [update]}
# Put a wrong owner reference of a Service right, also when taking over from another operator. It is never deleted.
- {apiGroups: [""], resources: [services], verbs: [delete]}
# The same of a ConfigMap.
- {apiGroups: [""], resources: [configmaps], verbs: [delete]}
{{- end }}
{{- end -}}

{{/* Arguments of the operator's container. */}}
{{- define "memcached-operator.args" -}}
- run
- --listen={{ .Values.bindAddress }}:{{ .Values.port }}
{{- if .Values.secureMetrics.enabled }}
- --secure-metrics-listen={{ .Values.bindAddress }}:{{ .Values.secureMetrics.port }}
{{- if .Values.secureMetrics.certificateSecret }}
- --secure-metrics-certificate=/metrics-certificate
{{- end }}
{{- end }}
- --journal-listen={{ with int64 .Values.journal.port }}127.0.0.1:{{ . }}{{ else }}off{{ end }}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
- --max-in-flight={{ int64 .Values.maxInFlight }}
- --max-concurrent-rollouts={{ int64 .Values.rollouts.maxConcurrent }}
- --adopt-templates={{ .Values.rollouts.adoptTemplates }}
{{- include "memcached-operator.cacheImages" . }}
- --pod-labels={{ include "memcached-operator.podLabels" . }}
{{- with .Values.watchNamespaces }}
- --watch-namespaces={{ uniq . | join "," }}
{{- end }}
{{- if .Values.leaderElection.enabled }}
- --leader-elect
- --lease-name={{ include "memcached-operator.leaseName" . }}
- --lease-duration={{ int64 .Values.leaderElection.leaseDurationSeconds }}
{{- end }}
{{- if .Values.journal.enabled }}
- --journal=/journal/journal
- --journal-max-bytes={{ int64 .Values.journal.maxBytes }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A duration as Prometheus writes it, such as 1m30s, in milliseconds. */}}
{{- define "memcached-operator.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+(ms|[ywdhms])" . -1 -}}
{{- $sum = add $sum (mul (regexFind "[0-9]+" .) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}
