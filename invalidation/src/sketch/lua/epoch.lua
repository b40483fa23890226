
-- Epochs, processes, snapshots.

local function begin_epoch(root, epoch, salt, saturated_until, floor)
  for _, ns in ipairs(redis.call('SMEMBERS', root .. ':spaces')) do
    for _, part in ipairs({ 'e', 'd', 'x', 'l', 'q', 's', 'c', 'b' }) do
      redis.call('UNLINK', root .. ':' .. part .. ':' .. ns)
    end
  end
  redis.call('UNLINK', root .. ':spaces', root .. ':members', root .. ':resume')
  local known = redis.call('HGET', root .. ':meta', 'floor') or ZERO
  redis.call('HSET', root .. ':meta', 'epoch', epoch, 'salt', salt, 'sat', saturated_until, 'floor', later(known, floor), 'run', run())
end

local function current(root)
  return redis.call('HMGET', root .. ':meta', 'epoch', 'salt')
end

-- member, first (0/1), new epoch, new salt, span_ms. Replies epoch, salt, what this process issued in an earlier life
-- (0 nothing, 1 all of it is here, 2 unknown), and where its feed resumes. Who comes while the sketch is saturated
-- takes it for unknown: whoever began the epoch may be gone before it had anything purged.
redis.register_function('freshet1_open', function(keys, args)
  local root, member, earlier = keys[1], args[1], 0
  local resume = redis.call('HGET', root .. ':resume', member) or ''
  local restarted = redis.call('HEXISTS', root .. ':members', member) == 1
  if not current(root)[1] then
    if args[2] == '1' then
      begin_epoch(root, args[3], args[4], 0, ZERO)
    else
      begin_epoch(root, args[3], args[4], clock() + tonumber(args[5]), ZERO)
      earlier = 2
    end
  elseif is_of_this_life(root) and restarted and resume ~= '' then
    earlier = 1
  elseif restarted or not is_of_this_life(root) then
    begin_epoch(root, args[3], args[4], clock() + tonumber(args[5]), ZERO)
    earlier = 2
  elseif clock() < tonumber(redis.call('HGET', root .. ':meta', 'sat')) then
    earlier = 2
  end
  local now = current(root)
  return { now[1], now[2], earlier, resume }
end)

-- epoch, new epoch, new salt, span_ms, through. Replies epoch, salt.
redis.register_function('freshet1_saturate', function(keys, args)
  local root = keys[1]
  local known = current(root)[1]
  if not known or known == args[1] then
    begin_epoch(root, args[2], args[3], clock() + tonumber(args[4]), args[5])
  end
  return current(root)
end)

-- epoch, max M.
redis.register_function('freshet1_confirm_saturation', function(keys, args)
  local refused = stale_epoch(keys[1], args[1])
  if refused then return refused end
  local meta = keys[1] .. ':meta'
  local short = clock() + tonumber(args[2])
  if short < tonumber(redis.call('HGET', meta, 'sat')) then redis.call('HSET', meta, 'sat', short) end
  return 0
end)

-- Tidies one collection up, picked at random; one that nothing is left of goes, and leaves its floor.
local function tidy(root, now, retention_ms, changes_max)
  local ns = redis.call('SRANDMEMBER', root .. ':spaces')
  if not ns then return end
  local s = open_space(root, ns)
  expire(s, now, 128)
  forget(s, now, retention_ms, changes_max)
  if redis.call('EXISTS', s.e, s.q) > 0 then return end
  local known = redis.call('HGET', root .. ':meta', 'floor') or ZERO
  redis.call('HSET', root .. ':meta', 'floor', later(known, s.floor))
  redis.call('UNLINK', s.s, s.c, s.b)
  redis.call('SREM', root .. ':spaces', ns)
end

-- epoch, member, watermark, as_of (server ms), invalidation_ms, lease_ms, resume token or '', new epoch, new salt,
-- span_ms, retention_ms, changes_max. A process whose lease ended took what it was matching with it, and a server in
-- another life may have lost what it was told: a new epoch (rule C8). A cell of a grid whose lease ended took only its own
-- part with it, which is the caller's to see to. Replies the server's time and the cells that are gone.
redis.register_function('freshet1_report', function(keys, args)
  local root, now = keys[1], clock()
  local refused = stale_epoch(root, args[1])
  if refused then return refused end
  local lost, replied = not is_of_this_life(root), { now }
  local all = redis.call('HGETALL', root .. ':members')
  for i = 1, #all, 2 do
    local seen = cmsgpack.unpack(all[i + 1])[4]
    local gone = all[i] ~= args[2] and now - seen > tonumber(args[6])
    if gone and string.sub(all[i], 1, 5) == 'cell:' then
      replied[#replied + 1] = all[i]
    else
      lost = lost or gone
    end
  end
  if lost then
    begin_epoch(root, args[8], args[9], now + tonumber(args[10]), args[3])
    return redis.error_reply('EPOCH ' .. args[8])
  end
  local as_of = tonumber(args[4])
  if as_of < 0 then as_of = 0 end
  redis.call('HSET', root .. ':members', args[2], cmsgpack.pack({ args[3], math.min(as_of, now), tonumber(args[5]), now }))
  if args[7] ~= '' then redis.call('HSET', root .. ':resume', args[2], args[7]) end
  tidy(root, now, tonumber(args[11]), tonumber(args[12]))
  return replied
end)

-- epoch, member.
redis.register_function('freshet1_dismiss', function(keys, args)
  local refused = stale_epoch(keys[1], args[1])
  if refused then return refused end
  redis.call('HDEL', keys[1] .. ':members', args[2])
  redis.call('HDEL', keys[1] .. ':resume', args[2])
  return 0
end)

-- The collections that a snapshot is of, as far as there is anything about them: 'd' and a database, or 'c' and names.
local function asked_for(root, args)
  local found = {}
  if args[1] == 'd' then
    local prefix = args[2] .. '.'
    for _, ns in ipairs(redis.call('SMEMBERS', root .. ':spaces')) do
      if string.sub(ns, 1, #prefix) == prefix then found[#found + 1] = ns end
    end
  else
    for i = 2, #args do
      if redis.call('SISMEMBER', root .. ':spaces', args[i]) == 1 then found[#found + 1] = args[i] end
    end
  end
  return found
end

-- 'd', database | 'c', ns ... Replies epoch, salt, saturated (0/1), members {watermark, age_ms, since seen,
-- invalidation_ms} ..., and per collection {m, stale keys, bits, ns}.
redis.register_function('freshet1_snapshot', function(keys, args)
  local root, now = keys[1], clock()
  local meta = redis.call('HMGET', root .. ':meta', 'epoch', 'salt', 'sat')
  if not meta[1] or not is_of_this_life(root) then return redis.error_reply('EPOCH 0') end
  local members, parts = {}, {}
  local all = redis.call('HGETALL', root .. ':members')
  for i = 1, #all, 2 do
    local report = cmsgpack.unpack(all[i + 1])
    members[#members + 1] = { all[i], report[1], now - report[2], now - report[4], report[3] }
  end
  local saturated = now < tonumber(meta[3]) and 1 or 0
  if saturated == 0 then
    for _, ns in ipairs(asked_for(root, args)) do
      local s = open_space(root, ns)
      expire(s, now, 512)
      parts[#parts + 1] = { s.m, redis.call('HLEN', s.x), redis.call('GET', s.b) or '', ns }
    end
  end
  return { meta[1], meta[2], saturated, members, parts }
end)

-- m, ns ... Makes filters larger, for a union that needs it.
redis.register_function('freshet1_grow', function(keys, args)
  for i = 2, #args do
    local s = open_space(keys[1], args[i])
    if s.m < tonumber(args[1]) then rebuild(s, math.min(tonumber(args[1]), BITS_MAX)) end
  end
  return 0
end)
