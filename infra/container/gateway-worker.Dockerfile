# The gateway's worker function as a container image, for servers that are larger than a package may be: docs/gateway.md.
# From the root of the checkout, after `make build-gateway BUNDLE=bundle`:
#
#   docker build -f infra/container/gateway-worker.Dockerfile --build-arg BUNDLE=bundle -t gateway-worker .

# The image of Lambda for the language of the servers.
ARG RUNTIME=public.ecr.aws/lambda/nodejs:24
# hadolint ignore=DL3006
FROM ${RUNTIME}
ARG BUNDLE=bundle
COPY target/lambda/worker/bootstrap /longhaul/worker
# mcp.json, mcp.lock.json and the servers, in the folder in which the worker runs.
COPY ${BUNDLE}/ ${LAMBDA_TASK_ROOT}/
# In place of the program that runs functions in the language of the image.
ENTRYPOINT ["/longhaul/worker"]
