"""A route guide by grpcio: all four kinds of methods. Prints one line for each result.

    grpcio.py serve ADDRESS         prints `ready ADDRESS`, and ends with its standard input
    grpcio.py ask ADDRESS

The method names and the data are those of gRPC's example route_guide. Messages are JSON.
"""
import json
import math
import sys
from concurrent import futures

import grpc

SERVICE = "routeguide.RouteGuide"
# Latitude and longitude in 1e-7 degrees.
FEATURES = {(40 + i % 7, -74 - i % 5): f"feature {i}" for i in range(35)}


def dump(value):
    return json.dumps(value).encode()


def get_feature(point, _context):
    return {"name": FEATURES.get(tuple(point), ""), "point": point}


def list_features(area, _context):
    (low, left), (high, right) = area
    for point, name in sorted(FEATURES.items()):
        if low <= point[0] <= high and left <= point[1] <= right:
            yield {"name": name, "point": point}


def record_route(points, _context):
    count, length, before = 0, 0.0, None
    for point in points:
        length += math.dist(before, point) if before else 0
        count, before = count + 1, point
    return {"points": count, "length": round(length)}


def route_chat(notes, context):
    before = {}
    for point, text in notes:
        if text == "abort":
            context.abort(grpc.StatusCode.OUT_OF_RANGE, "as asked")
        yield from before.get(tuple(point), [])
        before.setdefault(tuple(point), []).append([point, text])


def serve(address):
    kinds = {
        "GetFeature": (grpc.unary_unary_rpc_method_handler, get_feature),
        "ListFeatures": (grpc.unary_stream_rpc_method_handler, list_features),
        "RecordRoute": (grpc.stream_unary_rpc_method_handler, record_route),
        "RouteChat": (grpc.stream_stream_rpc_method_handler, route_chat),
    }
    handlers = {
        name: kind(function, request_deserializer=json.loads, response_serializer=dump)
        for name, (kind, function) in kinds.items()
    }
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port(address)
    if port == 0:
        raise SystemExit(f"{address} is in use")
    server.start()
    print("ready", address.removesuffix(":0") + f":{port}" * address.endswith(":0"), flush=True)
    sys.stdin.read()
    server.stop(None)


def ask(address):
    channel = grpc.insecure_channel(address)

    def method(kind, name):
        path = f"/{SERVICE}/{name}"
        return getattr(channel, kind)(
            path, request_serializer=dump, response_deserializer=json.loads
        )

    get = method("unary_unary", "GetFeature")
    print("unary", get([40, -74], timeout=60), get([0, 0], timeout=60))
    print("many", sum(bool(get([40 + i % 9, -74], timeout=60)["name"]) for i in range(500)))
    found = list(method("unary_stream", "ListFeatures")([[40, -77], [45, -74]], timeout=60))
    print("server stream", len(found), found[0], found[-1])
    points = ([i % 90, -(i % 180)] for i in range(20_000))
    print("client stream", method("stream_unary", "RecordRoute")(points, timeout=60))
    chat = method("stream_stream", "RouteChat")
    notes = [[[i % 3, 0], "x" * 5_000 + str(i)] for i in range(100)]
    heard = list(chat(iter(notes), timeout=60))
    print("both streams", len(heard), sum(len(text) for _, text in heard))
    try:
        list(chat(iter([[[0, 0], "abort"]]), timeout=60))
    except grpc.RpcError as error:
        print("abort", error.code().name, error.details())
    call = chat(iter(lambda: [[0, 0], "again"], None), timeout=60)
    next(call)
    call.cancel()
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        print("cancel", error.code().name)
    channel.close()


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](sys.argv[2])
