
-- Copies and changes.

-- Forgets changes older than the retention, or too many; the floor rises with them.
local function forget(s, now, retention_ms, changes_max)
  local gone = redis.call('ZRANGEBYSCORE', s.q, '-inf', now - retention_ms, 'LIMIT', 0, 64)
  if #gone == 0 then
    local over = redis.call('ZCARD', s.q) - changes_max
    if over <= 0 then return end
    gone = redis.call('ZRANGE', s.q, 0, math.min(over, 64) - 1)
  end
  for _, key in ipairs(gone) do
    raise_floor(s, redis.call('HGET', s.l, key) or ZERO)
    redis.call('HDEL', s.l, key)
    redis.call('ZREM', s.q, key)
  end
end

local function settle_one(s, now, keys_max, key, position, m_ms, s_ms, embedded, a, b)
  if position < s.floor then return s.floor end
  local last = redis.call('HGET', s.l, key)
  if last and last > position then return last end
  local ends = now + m_ms + s_ms
  if ends == now then return '' end
  local entry = load_entry(s, key)
  if not entry then
    if redis.call('HLEN', s.e) >= keys_max then return nil end
    entry = { 0, 0, 0, ZERO, 0, 0, 0, ZERO, a, b }
    redis.call('ZADD', s.d, ends, key)
  end
  if entry[FU] <= now then
    entry[FU], entry[FE], entry[FM], entry[FP] = ends, 0, m_ms, position
  else
    entry[FU], entry[FM] = math.max(entry[FU], ends), math.max(entry[FM], m_ms)
    if position < entry[FP] then entry[FP] = position end
  end
  if embedded then entry[FE] = math.max(entry[FE], ends) end
  save_entry(s, key, entry)
  return ''
end

-- epoch, ns, keys_max, retention_ms, changes_max, collections_max, then per read: key, position, m_ms, s_ms, embedded (0/1), a, b.
-- Replies per read '' or the position of the later change.
redis.register_function('freshet1_settle', function(keys, args)
  local refused = stale_epoch(keys[1], args[1])
  if refused then return refused end
  local spaces = keys[1] .. ':spaces'
  if redis.call('SISMEMBER', spaces, args[2]) == 0 and redis.call('SCARD', spaces) >= tonumber(args[6]) then
    return redis.error_reply('FULL the sketch holds as many collections as it may')
  end
  local now, s = clock(), open_space(keys[1], args[2])
  expire(s, now, 8)
  forget(s, now, tonumber(args[4]), tonumber(args[5]))
  local settled = {}
  for i = 7, #args, 7 do
    local one = settle_one(s, now, tonumber(args[3]), args[i], args[i + 1], tonumber(args[i + 2]),
      tonumber(args[i + 3]), args[i + 4] == '1', tonumber(args[i + 5]), tonumber(args[i + 6]))
    if not one then return redis.error_reply('FULL the sketch holds as many keys as it may') end
    settled[#settled + 1] = one
  end
  return settled
end)

-- Turns fresh copies read before `position`, or wherever they were read, stale; whether there were any.
local function invalidate(s, now, key, entry, position, wherever)
  if entry[FU] <= now or entry[FP] >= position and not wherever then return false end
  if entry[SU] <= now then
    entry[SU], entry[SE], entry[SM], entry[SP] = entry[FU], entry[FE], entry[FM], position
  else
    entry[SU], entry[SE] = math.max(entry[SU], entry[FU]), math.max(entry[SE], entry[FE])
    entry[SM], entry[SP] = math.max(entry[SM], entry[FM]), later(entry[SP], position)
  end
  entry[FU] = 0
  save_entry(s, key, entry)
  if redis.call('HSETNX', s.x, key, cmsgpack.pack({ entry[A], entry[B] })) == 1 then
    count_in(s, entry[A], entry[B])
  end
  return true
end

local function grow(s)
  local stale = redis.call('HLEN', s.x)
  if stale > keys_at_target(s.m) and s.m < BITS_MAX then rebuild(s, bits_for(stale)) end
end

-- epoch, ns, retention_ms, changes_max, then per write: key, position. Replies per write 1 if it made a copy stale.
redis.register_function('freshet1_report_write', function(keys, args)
  local refused = stale_epoch(keys[1], args[1])
  if refused then return refused end
  local now, s = clock(), open_space(keys[1], args[2])
  expire(s, now, 64)
  local hits = {}
  for i = 5, #args, 2 do
    local key, position, hit = args[i], args[i + 1], 0
    if position > s.floor and position > (redis.call('HGET', s.l, key) or ZERO) then
      redis.call('HSET', s.l, key, position)
      redis.call('ZADD', s.q, now, key)
    end
    local entry = load_entry(s, key)
    if entry and invalidate(s, now, key, entry, position) then hit = 1 end
    hits[#hits + 1] = hit
  end
  forget(s, now, tonumber(args[3]), tonumber(args[4]))
  grow(s)
  return hits
end)

-- The same arguments and reply, of keys that nobody matched for a while.
redis.register_function('freshet1_report_lost', function(keys, args)
  local refused = stale_epoch(keys[1], args[1])
  if refused then return refused end
  local now, s = clock(), open_space(keys[1], args[2])
  local hits = {}
  for i = 5, #args, 2 do
    local entry = load_entry(s, args[i])
    hits[#hits + 1] = entry and invalidate(s, now, args[i], entry, args[i + 1], true) and 1 or 0
  end
  grow(s)
  return hits
end)

-- epoch, ns, position. Rare (a collection was dropped), hence one pass over all its entries.
redis.register_function('freshet1_report_collection', function(keys, args)
  local refused = stale_epoch(keys[1], args[1])
  if refused then return refused end
  local now, s = clock(), open_space(keys[1], args[2])
  raise_floor(s, args[3])
  local all = redis.call('HGETALL', s.e)
  for i = 1, #all, 2 do
    invalidate(s, now, all[i], cmsgpack.unpack(all[i + 1]), args[3])
  end
  grow(s)
  return #all / 2
end)

-- epoch, ns, then per purge: key, position.
redis.register_function('freshet1_confirm_purge', function(keys, args)
  local refused = stale_epoch(keys[1], args[1])
  if refused then return refused end
  local now, s = clock(), open_space(keys[1], args[2])
  for i = 3, #args, 2 do
    local entry = load_entry(s, args[i])
    -- A later change has a purge of its own, whose repeat is still to come.
    if entry and entry[SU] > 0 and entry[SP] <= args[i + 1] then
      local ends = math.max(now + entry[SM], entry[SE])
      if ends < entry[SU] then
        entry[SU] = ends
        save_entry(s, args[i], entry)
        redis.call('ZADD', s.d, 'LT', ends, args[i])
      end
    end
  end
  expire(s, now, 64)
  return 0
end)
