{{- define "inference.labels" -}}
app.kubernetes.io/name: {{ .Values.namePrefix }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "inference.namespace" -}}
{{ .Values.shortPrefix }}-system
{{- end }}

{{- define "inference.manager" -}}
{{ .Values.namePrefix }}-controller-manager
{{- end }}
