
-- The counting filter and its flat bits. A counter at 255 sticks.

local function positions(a, b, m)
  local at = {}
  for i = 0, HASHES - 1 do
    at[#at + 1] = (a + i * b + (i * i * i - i) / 6) % m
  end
  return at
end

-- Redis numbers the bits of a byte from the most significant; the wire from the least.
local function wire_bit(at)
  return at - at % 8 + 7 - at % 8
end

local function count_in(s, a, b)
  local counts, bits = { 'BITFIELD', s.c, 'OVERFLOW', 'SAT' }, { 'BITFIELD', s.b }
  for _, at in ipairs(positions(a, b, s.m)) do
    for _, word in ipairs({ 'INCRBY', 'u8', '#' .. at, 1 }) do counts[#counts + 1] = word end
    for _, word in ipairs({ 'SET', 'u1', wire_bit(at), 1 }) do bits[#bits + 1] = word end
  end
  redis.call(unpack(counts))
  redis.call(unpack(bits))
end

local function count_out(s, a, b)
  for _, at in ipairs(positions(a, b, s.m)) do
    local count = redis.call('BITFIELD', s.c, 'GET', 'u8', '#' .. at)[1]
    if count > 0 and count < 255 then
      redis.call('BITFIELD', s.c, 'SET', 'u8', '#' .. at, count - 1)
      if count == 1 then redis.call('BITFIELD', s.b, 'SET', 'u1', wire_bit(at), 0) end
    end
  end
end

local function keys_at_target(m)
  return m * KEYS_PER_BITS_MIN / BITS_MIN
end

local function bits_for(keys)
  local m = BITS_MIN
  while keys > keys_at_target(m) and m < BITS_MAX do m = m * 2 end
  return m
end

-- Counts all stale keys into a filter of another size. Blocks the server for about 2 µs a key; happens at each
-- doubling only.
local function rebuild(s, m)
  s.m = m
  redis.call('HSET', s.s, 'm', m)
  redis.call('DEL', s.c, s.b)
  for _, packed in ipairs(redis.call('HVALS', s.x)) do
    local halves = cmsgpack.unpack(packed)
    count_in(s, halves[1], halves[2])
  end
end

-- Takes out what is past its horizon; looks at `limit` entries.
local function expire(s, now, limit)
  local due = redis.call('ZRANGEBYSCORE', s.d, '-inf', now, 'LIMIT', 0, limit)
  for _, key in ipairs(due) do
    local entry = load_entry(s, key)
    if entry and entry[FU] <= now then entry[FU] = 0 end
    if entry and entry[SU] <= now then
      entry[SU] = 0
      if redis.call('HDEL', s.x, key) == 1 then count_out(s, entry[A], entry[B]) end
    end
    if not entry or (entry[FU] == 0 and entry[SU] == 0) then
      redis.call('HDEL', s.e, key)
      redis.call('ZREM', s.d, key)
    else
      local next = entry[FU]
      if next == 0 or (entry[SU] > 0 and entry[SU] < next) then next = entry[SU] end
      save_entry(s, key, entry)
      redis.call('ZADD', s.d, next, key)
    end
  end
  if #due > 0 and s.m > BITS_MIN then
    local stale = redis.call('HLEN', s.x)
    if stale < keys_at_target(s.m) / 16 then rebuild(s, bits_for(stale * 2)) end
  end
end
