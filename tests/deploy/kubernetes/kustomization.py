"""What `kubectl kustomize` makes of a folder, for the features that deploy/kubernetes uses.

A key, a kind or a patch that is not known here is an error, never ignored.
"""

import copy
import json
import pathlib
import re

import yaml

KNOWN_KEYS = {
    "apiVersion", "kind", "namespace", "resources", "components", "labels", "images", "replicas", "patches"}
VERSIONS = {
    "Kustomization": "kustomize.config.k8s.io/v1beta1",
    "Component": "kustomize.config.k8s.io/v1alpha1",
}
WITH_PODS = {"Deployment", "StatefulSet"}
NAMESPACED = WITH_PODS | {
    "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount",
    "ServiceMonitor"}


class KustomizationError(Exception):
    """What is wrong, and in which file."""


class Manifest(dict):
    """An object, with the file it is from."""

    def __init__(self, content, path):
        super().__init__(content)
        self.path = path


def render(folder):
    """The objects of a folder, as Manifests."""
    return _accumulate(pathlib.Path(folder), [], "Kustomization")


def _load_one(path):
    documents = _load_all(path)
    if len(documents) != 1:
        raise KustomizationError(f"{path}: {len(documents)} documents instead of one")
    return documents[0]


def _load_all(path):
    try:
        # By way of JSON, which has no anchors: a change of one place must not change the others.
        documents = json.loads(json.dumps(list(yaml.load_all(path.read_text(), _Loader))))
    except (OSError, TypeError, yaml.YAMLError, KustomizationError) as error:
        raise KustomizationError(f"{path}: {error}") from None
    return [document for document in documents if document is not None]


def _manifests(path):
    return [Manifest(document, path) for document in _load_all(path)]


class _Loader(yaml.SafeLoader):
    """Refuses a mapping that has a key twice."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise KustomizationError(f"line {node.start_mark.line + 1}: {key} stands there twice")
        return super().construct_mapping(node, deep)


def _check_keys(where, value, required, optional=()):
    if not isinstance(value, dict):
        raise KustomizationError(f"{where}: not a mapping")
    unknown = set(value) - set(required) - set(optional)
    missing = set(required) - set(value)
    if unknown or missing:
        raise KustomizationError(f"{where}: unknown {sorted(unknown)}, missing {sorted(missing)}")


def _accumulate(folder, objects, kind):
    """`objects`, with those of a folder's resources added, and all of them changed by the folder."""
    path = folder / "kustomization.yaml"
    kustomization = _load_one(path)
    _check_keys(path, kustomization, {"apiVersion", "kind"}, KNOWN_KEYS)
    header = (kustomization["apiVersion"], kustomization["kind"])
    if header != (VERSIONS[kind], kind):
        raise KustomizationError(f"{path}: {' '.join(header)} instead of {VERSIONS[kind]} {kind}")
    for name in kustomization.get("resources", []):
        resource = folder / name
        objects += render(resource) if resource.is_dir() else _manifests(resource)
    for name in kustomization.get("components", []):
        objects = _accumulate(folder / name, objects, "Component")
    _check_objects(path, objects)
    for patch in kustomization.get("patches", []):
        _patch(folder, patch, objects)
    _set_namespace(kustomization.get("namespace"), objects)
    for labels in kustomization.get("labels", []):
        _add_labels(path, labels, objects)
    for replicas in kustomization.get("replicas", []):
        _set_replicas(path, replicas, objects)
    for image in kustomization.get("images", []):
        _set_image(path, image, objects)
    return objects


def _check_objects(path, objects):
    seen = set()
    for item in objects:
        if item.get("kind") not in NAMESPACED:
            raise KustomizationError(f"{path}: kind {item.get('kind')} is not known to this test")
        name = (item["kind"], item["metadata"]["name"])
        if name in seen:
            raise KustomizationError(f"{path}: two of {name[0]}/{name[1]}")
        seen.add(name)


def _patch(folder, patch, objects):
    where = folder / "kustomization.yaml"
    _check_keys(f"{where}: patches", patch, {"path", "target"})
    _check_keys(f"{where}: patches: target", patch["target"], {"kind", "name"})
    targets = [item for item in objects if item["kind"] == patch["target"]["kind"]
               and item["metadata"]["name"] == patch["target"]["name"]]
    if not targets:
        raise KustomizationError(f"{where}: {patch['path']} has no target {patch['target']}")
    operations = _load_one(folder / patch["path"])
    if not isinstance(operations, list):
        raise KustomizationError(f"{folder / patch['path']}: not a list of operations (RFC 6902)")
    for target in targets:
        for operation in operations:
            _apply(folder / patch["path"], operation, target)


def _apply(path, operation, target):
    """One operation of RFC 6902."""
    where = f"{path}: {operation.get('op')} {operation.get('path')}"
    removes = operation.get("op") == "remove"
    _check_keys(where, operation, {"op", "path"} if removes else {"op", "path", "value"})
    if operation["op"] not in ("add", "replace", "remove"):
        raise KustomizationError(f"{where}: not known to this test")
    *parents, last = [word.replace("~1", "/").replace("~0", "~") for word in operation["path"].split("/")[1:]]
    try:
        for word in parents:
            target = target[int(word) if isinstance(target, list) else word]
        if isinstance(target, list):
            last = len(target) if last == "-" and operation["op"] == "add" else int(last)
        if operation["op"] != "add":
            del target[last]
    except (KeyError, IndexError, ValueError, TypeError):
        raise KustomizationError(f"{where}: no such place") from None
    if removes:
        return
    value = copy.deepcopy(operation["value"])
    if isinstance(target, list):
        target.insert(last, value)
    else:
        target[last] = value


def _set_namespace(namespace, objects):
    for item in objects if namespace else []:
        item["metadata"]["namespace"] = namespace


def _add_labels(path, labels, objects):
    """Never selectors: `includeSelectors` is refused."""
    _check_keys(f"{path}: labels", labels, {"pairs", "includeTemplates"})
    for item in objects:
        item["metadata"].setdefault("labels", {}).update(labels["pairs"])
        if labels["includeTemplates"] and item["kind"] in WITH_PODS:
            item["spec"]["template"]["metadata"].setdefault("labels", {}).update(labels["pairs"])


def _set_replicas(path, replicas, objects):
    _check_keys(f"{path}: replicas", replicas, {"name", "count"})
    targets = [item for item in objects
               if item["kind"] in WITH_PODS and item["metadata"]["name"] == replicas["name"]]
    if not targets:
        raise KustomizationError(f"{path}: replicas: nothing is named {replicas['name']}")
    for item in targets:
        item["spec"]["replicas"] = replicas["count"]


def _set_image(path, image, objects):
    _check_keys(f"{path}: images", image, {"name"}, {"newName", "newTag"})
    found = False
    for item in objects:
        if item["kind"] not in WITH_PODS:
            continue
        pods = item["spec"]["template"]["spec"]
        for container in pods.get("initContainers", []) + pods["containers"]:
            name, tag = re.fullmatch(r"(.*?)((?::[^:/@]*)?(?:@.*)?)", container["image"]).groups()
            if name != image["name"]:
                continue
            found = True
            tag = f":{image['newTag']}" if "newTag" in image else tag
            container["image"] = image.get("newName", name) + tag
    if not found:
        raise KustomizationError(f"{path}: images: no container has the image {image['name']}")
