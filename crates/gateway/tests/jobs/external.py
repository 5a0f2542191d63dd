"""What botocore's models of the services say about the requests that jobs send and the error codes that they know.

Reads {"requests": [{"service", "operation", "input"}], "codes": [{"service", "code"}]} from standard input. Prints
{"faults": […], "errors": {service: {operation: [code]}}}.
"""

import json
import re
import sys

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

loader = Loader()
models = {}


def model(service):
    if service not in models:
        models[service] = ServiceModel(loader.load_service_model(service, "service-2"), service)
    return models[service]


def compiled(pattern):
    """The pattern; None if it is not one of Python."""
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None


def faults(value, shape, place):
    """What ParamValidator does not check: enums, patterns and the longest values."""
    if shape.type_name == "structure":
        for name, member in value.items():
            yield from faults(member, shape.members[name], f"{place}/{name}")
    elif shape.type_name == "list":
        if len(value) > shape.metadata.get("max", len(value)):
            yield f"{place} has {len(value)} elements"
        for member in value:
            yield from faults(member, shape.member, f"{place}/0")
    elif shape.type_name == "map":
        for name, member in value.items():
            yield from faults(name, shape.key, f"{place}/{name}")
            yield from faults(member, shape.value, f"{place}/{name}")
    elif shape.type_name == "string":
        if shape.enum and value not in shape.enum:
            yield f"{place} is none of {shape.enum}: {value}"
        if len(value) > shape.metadata.get("max", len(value)):
            yield f"{place} has {len(value)} characters"
        pattern = compiled(shape.metadata.get("pattern", ""))
        if pattern and not pattern.fullmatch(value):
            yield f"{place} does not match {pattern.pattern}: {value}"
    elif shape.type_name in ("integer", "long"):
        if value > shape.metadata.get("max", value):
            yield f"{place} is too large: {value}"


asked = json.load(sys.stdin)
found, errors = [], {}
for request in asked["requests"]:
    service, operation, value = request["service"], request["operation"], request["input"]
    known = model(service)
    # Batch names its operations in the paths of requests, in lower case.
    name = next((name for name in known.operation_names if name.lower() == operation.lower()), None)
    if name is None:
        found.append(f"{service} has no operation {operation}")
        continue
    described = known.operation_model(name)
    errors.setdefault(service, {})[name] = [error.name for error in described.error_shapes]
    report = ParamValidator().validate(value, described.input_shape)
    wrong = [report.generate_report()] if report.has_errors() else faults(value, described.input_shape, "")
    found.extend(f"{service} {name}: {fault}" for fault in wrong)
for handled in asked["codes"]:
    service, code = handled["service"], handled["code"]
    if not any(code in codes for codes in errors.get(service, {}).values()):
        found.append(f"{service} does not answer with {code}")
print(json.dumps({"faults": sorted(set(found)), "errors": errors}))
