-- Reserves attempts that no rule can affect: so few are pending or have failed that no rule could act. Most logins are like that, and
-- this script is short because Redis executes all of a script each time. An attempt that it does not reserve is not counted either; the
-- rules script decides it.
--
-- KEYS     for each call the states of name, pair, address and, if it has one, network; then its record, if it has one
-- ARGV[1]  '>I8I8' time in µs, 0 for Redis' own; how long an attempt may be pending; then for each of those kinds '>I4I8': number of units from
--          which on a rule may act, and the age at which a unit expires
-- ARGV[2…] for name, address and network the ms to live of a state whose newest unit is from now
-- ARGV[5…] the calls, packed as '>Bc6': 1: has a network, 2: has a record; tag of the name
--
-- Replies  the time in µs, then for each call the failures of name and address, or false if the rules script must decide
--
-- prelude.lua describes the format of a state, run.lua that of a record.

local call, pack, unpack_bytes = redis.call, struct.pack, struct.unpack

local now, settle_within, least_name, horizon_name, least_pair, horizon_pair, least_ip, horizon_ip, least_network, horizon_network =
  unpack_bytes('>I8I8I4I8I4I8I4I8I4I8', ARGV[1])
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Returns units and failures of a state, or nothing if a rule could act, units must be aged, or it cannot be parsed.
local function counts(state, size, least, horizon)
  if not state then return 0, 0 end
  local n, failed = (#state - 1) / size, 0
  if n % 1 ~= 0 or n >= least or string.byte(state) > 0 then return end
  for at = 2, #state, size do
    local t = unpack_bytes('>I8', state, at)
    if t % 2 == 0 then failed = failed + 1 elseif now >= (t - 1) / 2 + settle_within then return end
    if t / 2 <= now - horizon then return end
  end
  return n, failed
end

local states = call('MGET', unpack(KEYS))
local under_way = pack('>I8', now * 2 + 1)
local written = {} -- by key: written by this script
local replies, key = { now }, 0

for i = 5, #ARGV do
  local flags, tag = unpack_bytes('>Bc6', ARGV[i])
  local name, pair, ip, network, record = key + 1, key + 2, key + 3, flags % 2 == 1 and key + 4, nil
  key = network or ip
  if flags >= 2 then
    key = key + 1
    record = key
  end
  local name_state, ip_state = written[KEYS[name]] or states[name], written[KEYS[ip]] or states[ip]
  local network_state = network and (written[KEYS[network]] or states[network])
  local n, failed = counts(name_state, 8, least_name, horizon_name)
  local n_ip, failed_ip = counts(ip_state, 15, least_ip, horizon_ip)
  local n_pair = counts(states[pair], 8, least_pair, horizon_pair)
  local answer = n and n_ip and n_pair and n_pair + n_ip < least_pair and (failed > failed_ip and failed or failed_ip)
  if network and not counts(network_state, 8, least_network, horizon_network) then answer = nil end
  if record and (states[record] or written[KEYS[record]]) then answer = nil end
  if answer then
    name_state, ip_state = (name_state or '\0') .. under_way, (ip_state or '\0') .. under_way .. tag .. '\1'
    call('PSETEX', KEYS[name], ARGV[2], name_state)
    call('PSETEX', KEYS[ip], ARGV[3], ip_state)
    written[KEYS[name]], written[KEYS[ip]] = name_state, ip_state
    if network then
      network_state = (network_state or '\0') .. under_way
      call('PSETEX', KEYS[network], ARGV[4], network_state)
      written[KEYS[network]] = network_state
    end
    if record then
      call('SET', KEYS[record], pack('>BBI4I4I8I8I4I2', 0, 4, 0, 0, 0, now, answer, 0), 'EX', 60)
      written[KEYS[record]] = true
    end
  end
  replies[i - 3] = answer or false
end
return replies
