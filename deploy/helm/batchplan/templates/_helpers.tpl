{{/*
The chart renders the manifests of deploy/kubernetes (files/kubernetes): the base, changed by the patches of overlays and
components as Kustomize would change it, and then by the values.
*/}}

{{/* Whether replicas share a Redis: "true" or nothing. */}}
{{- define "batchplan.shared" -}}
{{- if or .Values.redis.enabled .Values.redis.url }}true{{ end }}
{{- end }}

{{/* A file of deploy/kubernetes: (list . "base/service.yaml") */}}
{{- define "batchplan.file" -}}
{{- $path := printf "files/kubernetes/%s" (index . 1) -}}
{{- (index . 0).Files.Get $path | required (printf "the chart was packed without %s" $path) -}}
{{- end }}

{{/*
Changes an object by a patch of deploy/kubernetes: (list . $object "components/tls/deployment.yaml"). Of RFC 6902 it knows
what stands in these patches: add, with "-" for a list's end, replace, and remove of a key.
*/}}
{{- define "batchplan.patch" -}}
{{- $object := index . 1 -}}
{{- range include "batchplan.file" (list (index . 0) (index . 2)) | fromYamlArray -}}
{{- $words := splitList "/" (trimPrefix "/" .path) -}}
{{- $place := dict "map" $object "key" (first $words) "value" (get $object (first $words)) -}}
{{- range rest $words -}}
{{- if eq . "-" -}}
{{- else if kindIs "slice" $place.value -}}
{{- $_ := set $place "value" (index $place.value (int .)) -}}
{{- else -}}
{{- $place = dict "map" $place.value "key" . "value" (get $place.value .) -}}
{{- end -}}
{{- end -}}
{{- if eq .op "remove" -}}
{{- $_ := unset $place.map $place.key -}}
{{- else if eq (last $words) "-" -}}
{{- $_ := set $place.map $place.key (append $place.value .value) -}}
{{- else -}}
{{- $_ := set $place.map $place.key .value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* An object as YAML, with the labels and the namespace of the release: (list . $object) */}}
{{- define "batchplan.object" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $labels := dict
  "app.kubernetes.io/part-of" "batchplan"
  "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $object.metadata "namespace" $root.Release.Namespace -}}
{{- $_ := set $object.metadata "labels" (merge (dict "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version))
  $labels $object.metadata.labels) -}}
{{- if has $object.kind (list "Deployment" "StatefulSet") -}}
{{- $pods := $object.spec.template.metadata -}}
{{- $_ := set $pods "labels" (merge (dict) $labels $pods.labels) -}}
{{- end -}}
{{- toYaml $object -}}
{{- end }}

{{/* The value of a flag: (list $value). Large numbers are written with all their digits. */}}
{{- define "batchplan.flag" -}}
{{- $value := index . 0 -}}
{{- if kindIs "string" $value }}{{ $value }}{{ else }}{{ toJson $value }}{{ end -}}
{{- end }}
