-- The dissector of Wireshark for the files that `m3 trace --out FILE.pcapng` writes.
--
-- Use: tshark -X lua_script:m3ipc.lua -r FILE.pcapng
-- Or copy it to the folder of personal Lua plugins (Help, About Wireshark, Folders).
-- crates/cli/src/trace/pcapng.rs describes the layout of a packet.

local m3ipc = Proto("m3ipc", "m3ipc message")

local kinds = {
    [1] = "send", [2] = "request", [3] = "answer", [4] = "relay",
    [16] = "notify", [17] = "copy",
}

local f = m3ipc.fields
f.version = ProtoField.uint32("m3ipc.version", "Version")
f.vm = ProtoField.int32("m3ipc.vm", "VM")
f.from = ProtoField.int32("m3ipc.from", "From (address)")
f.to = ProtoField.int32("m3ipc.to", "To (address)")
f.what = ProtoField.uint8("m3ipc.what", "What", base.DEC, kinds)
f.type = ProtoField.int32("m3ipc.type", "Type")
f.bytes = ProtoField.uint32("m3ipc.bytes", "Bytes beside the message")
f.number = ProtoField.uint64("m3ipc.number", "Number")
f.answers = ProtoField.uint64("m3ipc.answers", "Answers request")
f.call_ns = ProtoField.uint64("m3ipc.call_ns", "Whole call (ns)")
f.server_ns = ProtoField.uint32("m3ipc.server_ns", "Server's own work (ns)")
f.from_name = ProtoField.string("m3ipc.from_name", "From")
f.to_name = ProtoField.string("m3ipc.to_name", "To")

-- Offset, field, text: in the order of the study.
local phases = {
    { 56, "t1", "T1 prepare (ns)" },
    { 60, "t2", "T2 deliver (ns)" },
    { 64, "t5_wake", "T5 publish to wake (ns)" },
    { 68, "t5_run", "T5 wake to run (ns)" },
    { 72, "t5_read", "T5 run to read (ns)" },
    { 76, "t3", "T3 find (ns)" },
    { 80, "t4_copy", "T4 copy (ns)" },
    { 84, "t4_sender", "T4 sender (ns)" },
}
for _, phase in ipairs(phases) do
    f[phase[2]] = ProtoField.uint32("m3ipc." .. phase[2], phase[3])
end

local HEAD = 96
local ENDS_CALL = 1

function m3ipc.dissector(buffer, pinfo, tree)
    if buffer:len() < HEAD or buffer(0, 4):le_uint() ~= 1 then
        return 0
    end
    local from_bytes, to_bytes = buffer(92, 1):uint(), buffer(93, 1):uint()
    if buffer:len() < HEAD + from_bytes + to_bytes then
        return 0
    end
    local from = from_bytes > 0 and buffer(HEAD, from_bytes):string() or "?"
    local to = to_bytes > 0 and buffer(HEAD + from_bytes, to_bytes):string() or "?"
    local what = kinds[buffer(16, 1):uint()] or "?"
    local ends_call = buffer(17, 1):uint() % 2 == ENDS_CALL

    pinfo.cols.protocol = "m3ipc"
    pinfo.cols.src = from
    pinfo.cols.dst = to
    local info = string.format("%s -> %s  %s type %d  #%s", from, to, what, buffer(20, 4):le_int(),
        tostring(buffer(32, 8):le_uint64()))
    if buffer(24, 4):le_uint() > 0 then
        info = info .. string.format(" and %d bytes", buffer(24, 4):le_uint())
    end
    if ends_call then
        info = info .. string.format("  ends a call of %s ns", tostring(buffer(48, 8):le_uint64()))
    end
    pinfo.cols.info = info

    local item = tree:add(m3ipc, buffer(), "m3ipc, " .. info)
    item:add_le(f.vm, buffer(4, 4))
    if from_bytes > 0 then item:add(f.from_name, buffer(HEAD, from_bytes)) end
    if to_bytes > 0 then item:add(f.to_name, buffer(HEAD + from_bytes, to_bytes)) end
    item:add_le(f.from, buffer(8, 4))
    item:add_le(f.to, buffer(12, 4))
    item:add(f.what, buffer(16, 1))
    item:add_le(f.type, buffer(20, 4))
    item:add_le(f.bytes, buffer(24, 4))
    item:add_le(f.number, buffer(32, 8))
    if what == "answer" then item:add_le(f.answers, buffer(40, 8)) end
    local parts = item:add(m3ipc, buffer(56, 32), "Phases")
    for _, phase in ipairs(phases) do
        parts:add_le(f[phase[2]], buffer(phase[1], 4))
    end
    if ends_call then
        item:add_le(f.call_ns, buffer(48, 8))
        item:add_le(f.server_ns, buffer(88, 4))
    end
    return buffer:len()
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, m3ipc)
