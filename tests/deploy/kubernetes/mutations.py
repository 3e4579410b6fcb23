"""Mistakes that the test has to find: (file, what stands there, what is written instead, the report).

The report is part of a line that the test must print.
"""

SERVER = "base/deployment.yaml"
IMAGES = "base/kustomization.yaml"
SERVICE = "base/service.yaml"
POLICY = "base/networkpolicy.yaml"
SINGLE = "overlays/single-node/kustomization.yaml"
HA = "overlays/high-availability"
PATCH = f"{HA}/deployment.yaml"
SCALER = f"{HA}/horizontalpodautoscaler.yaml"
BUDGET = f"{HA}/poddisruptionbudget.yaml"
REDIS = f"{HA}/redis/statefulset.yaml"
MONITOR = "components/service-monitor/servicemonitor.yaml"
TLS = "components/tls/deployment.yaml"

MUTATIONS = [
    # Schemas
    (SERVER, "readinessProbe:", "readynessProbe:", "'readynessProbe' was unexpected"),
    (SERVER, "periodSeconds: 1\n", "periodSeconds: one\n", "'one' is not of type"),
    (SCALER, "autoscaling/v2", "autoscaling/v2beta2", "no schema of autoscaling/v2beta2"),
    (PATCH, "/spec/template/spec/volumes/-", "/spec/template/spec/volumes", "is not of type"),

    # Rendering
    (SINGLE, "replicas:", "namePrefix: x-\nreplicas:", "unknown ['namePrefix']"),
    (SINGLE, "includeTemplates: true", "includeSelectors: true", "unknown ['includeSelectors']"),
    ("overlays/single-node/deployment.yaml", "/spec/strategy", "/spec/strategies", "no such place"),
    (f"{HA}/kustomization.yaml", "kind: NetworkPolicy", "kind: Ingress", "has no target"),
    (f"{HA}/kustomization.yaml", "  - poddisruptionbudget.yaml\n", "", "instead of {'Deployment'"),
    (IMAGES, "- name: batchplan-server", "- name: batchplan", "no container has the image batchplan"),
    (SERVICE, "  clusterIP: None", "  clusterIP: None\n  clusterIP: None", "clusterIP stands there twice"),

    # Labels and selectors
    (SINGLE, "part-of: batchplan", "part-of: ''", "no app.kubernetes.io/part-of"),
    (SERVICE, "component: server\n  ports:", "component: servers\n  ports:",
     "Service/batchplan: spec.selector"),
    (SERVER, "    metadata:\n      labels:\n        app.kubernetes.io/name: batchplan",
     "    metadata:\n      labels:\n        app.kubernetes.io/name: planner",
     "Deployment/batchplan: spec.selector"),
    (POLICY, "  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: batchplan",
     "  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: planner", "no NetworkPolicy selects"),
    (BUDGET, "      app.kubernetes.io/name: batchplan", "      app.kubernetes.io/name: redis",
     "PodDisruptionBudget/batchplan: spec.selector"),
    (PATCH, "app.kubernetes.io/component: server", "component: server", "topologySpreadConstraints"),
    (SCALER, "    name: batchplan\n  min", "    name: planner\n  min", "spec.scaleTargetRef"),
    (MONITOR, "    matchLabels:\n      app.kubernetes.io/name: batchplan",
     "    matchLabels:\n      app.kubernetes.io/name: planner", "ServiceMonitor/batchplan: spec.selector"),
    (MONITOR, "jobLabel: app.kubernetes.io/name", "jobLabel: app.kubernetes.io/component", "spec.jobLabel"),
    (REDIS, "name: redis\n    app", "name: valkey\n    app", "Service/batchplan-redis: spec.selector"),
    (REDIS, "serviceName: batchplan-redis", "serviceName: redis", "no Service redis"),

    # Ports
    (SERVER, "            - name: http-metrics\n              containerPort: 9464\n", "",
     "no port http-metrics"),
    (SERVER, "port: 50051\n            period", "port: 50052\n            period", "no port 50052"),
    (SERVER, "--listen=0.0.0.0:50051", "--listen=0.0.0.0:50052", "is not the port of --listen"),
    (SERVICE, "targetPort: grpc", "targetPort: rpc", "no port named rpc"),
    (SERVICE, "port: 50051", "port: 443", "differs from its pods' port"),
    (SERVICE, "  clusterIP: None\n", "", "spec.clusterIP"),
    (MONITOR, "port: http-metrics", "port: metrics", "spec.endpoints.port"),

    # Flags and probes
    (SERVER, "--drain_delay=5", "--drain_time=5", "no flag --drain_time"),
    (SERVER, "BATCHPLAN_PLANNING_THREADS", "BATCHPLAN_THREADS", "no flag --threads"),
    (SERVER, "--drain_delay=5", "--drain_delay=5s", "5s"),
    (SERVER, "--drain_delay=5", "--drain_delay=25", "terminationGracePeriodSeconds"),
    (SERVER, "path: /healthz", "path: /readyz", "killed"),
    (TLS, "readinessProbe/grpc", "readinessProbe/timeoutSeconds", "['grpc', 'httpGet'] instead of one way"),

    # Images, resources, security
    (IMAGES, "newTag: 0.2.0", "newTag: latest", "is not pinned"),
    (IMAGES, "    newTag: 0.2.0\n", "", "is not pinned"),
    (REDIS, "redis:7.4.2-bookworm", "redis:7", "not the one of deploy/.env"),
    (SERVER, "              memory: 4Gi", "              cpu: 4", "no memory"),
    (SERVER, "memory: 4Gi", "memory: 1Gi", "resources.limits.memory"),
    (SERVER, "runAsNonRoot: true", "runAsNonRoot: false", "no runAsNonRoot"),
    (SERVER, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRootFilesystem"),
    (REDIS, "drop: [ALL]", "drop: [NET_RAW]", "capabilities"),
    (REDIS, "automountServiceAccountToken: false", "automountServiceAccountToken: true", "automount"),

    # References
    (PATCH, "secretName: batchplan-redis", "secretName: redis", "does not make the Secret redis"),
    (PATCH, "redis/password\n", "redis/pass\n", "has the file /run/secrets/redis/pass"),
    (PATCH, "    name: redis-password\n    mountPath", "    name: redis\n    mountPath", "no volume redis"),
    (PATCH, "redis://batchplan-redis", "redis://redis", "no Service redis"),
    (PATCH, "redis://batchplan-redis:6379", "redis://user@redis/0", "no Service redis"),
    (PATCH, "redis://batchplan-redis:6379", "rediss://batchplan-redis:6380", "batchplan-redis has no port 6380"),
    (PATCH, "redis://batchplan-redis:6379", "rediss+sentinel://batchplan-redis:6379,batchplan-redis/planner",
     "batchplan-redis has no port 26379"),
    (SERVER, "serviceAccountName: batchplan", "serviceAccountName: planner", "no ServiceAccount planner"),
    (TLS, "tls/tls.key", "tls/key.pem", "has the file /run/secrets/tls/key.pem"),

    # Networks
    (POLICY, '          podSelector:\n            matchLabels:\n              batchplan-client: "true"\n', "",
     "anybody, to the port grpc"),
    (f"{HA}/networkpolicy.yaml", "port: 6379", "port: 6380", "let the server to batchplan-redis:6379"),
    (f"{HA}/networkpolicy.yaml", "protocol: UDP", "protocol: TCP", "to the DNS"),
    (PATCH, "redis://batchplan-redis:6379", "rediss://redis.databases.svc:6380",
     "let the server to redis.databases.svc:6380"),
    (PATCH, "redis://batchplan-redis:6379", "redis+unix:///run/redis.sock", "calls nobody"),
    (f"{HA}/redis/networkpolicy.yaml", "component: server", "component: client", "no pods here have"),
    (f"{HA}/redis/networkpolicy.yaml", "[Ingress, Egress]", "[Ingress]", "spec.policyTypes"),

    # Replicas
    (SINGLE, "count: 1", "count: 2", "a memory of its own"),
    (PATCH, "=redis://batchplan-redis:6379", "=memory", "a memory of its own"),
    (BUDGET, "66%", "67%", "no node can drain"),
    (SCALER, "minReplicas: 3", "minReplicas: 2", "spec.minReplicas"),
]
