{{/* Takes root, name and component. */}}
{{- define "keda.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: {{ .root.Values.operator.name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* An account. Takes root, account (its values) and role (an IAM role, or nothing). */}}
{{- define "keda.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .account.name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "keda.labels" (dict "root" .root "name" .account.name "component" "account") | nindent 4 }}
  {{- if or .account.annotations .role }}
  annotations:
    {{- with .role }}
    eks.amazonaws.com/role-arn: {{ . }}
    {{- end }}
    {{- with .account.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* A deployment with its service. Takes root, name, component, account, image, replicas and port. */}}
{{- define "keda.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app: {{ .name }}
    {{- include "keda.labels" . | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      app: {{ .name }}
  template:
    metadata:
      labels:
        app: {{ .name }}
        {{- include "keda.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .account.name }}
      containers:
        - name: {{ .name }}
          image: "{{ .image.repository }}:{{ .image.tag }}"
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          resources:
            {{- toYaml .root.Values.resources.operator | nindent 12 }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "keda.labels" . | nindent 4 }}
spec:
  ports:
    - name: main
      port: {{ .port }}
  selector:
    app: {{ .name }}
{{- end }}
