{{/* Labels that every object carries. */}}
{{- define "hyperpod-dependencies.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: {{ .Chart.Name }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* An agent on every node. Takes root, name, agent (its values) and, optionally, devices (mounts the plugin socket). */}}
{{- define "hyperpod-dependencies.agent" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ .agent.namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    {{- include "hyperpod-dependencies.labels" .root | nindent 4 }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
      app.kubernetes.io/instance: {{ .root.Release.Name }}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ .name }}
        {{- include "hyperpod-dependencies.labels" .root | nindent 8 }}
    spec:
      priorityClassName: system-node-critical
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          image: "{{ .agent.image }}:{{ .agent.tag }}"
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
          {{- if .devices }}
          volumeMounts:
            - name: device-plugins
              mountPath: /var/lib/kubelet/device-plugins
          {{- end }}
      {{- if .devices }}
      volumes:
        - name: device-plugins
          hostPath:
            path: /var/lib/kubelet/device-plugins
      {{- end }}
{{- end }}
