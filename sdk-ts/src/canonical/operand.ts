/**
 * Operators of a path and their operands in canonical form ("Operands" of docs/canonical-form.md).
 */
import type { Json, JsonObject } from '../ejson.ts';
import { filterValue } from './filter.ts';
import { integral, truncate } from './number.ts';
import { Unkeyed } from './unkeyed.ts';
import {
  array,
  bool,
  compareText,
  isWrapper,
  number,
  object,
  REGEX,
  regex,
  sortedSet,
  text,
  type Value,
  value,
} from './value.ts';

/** An operator's name and operand. The operand of `$regex` is a regular expression, options included. */
export type Operation = readonly [name: string, operand: Value];

/** BSON types by their number; 0 is no type's. https://www.mongodb.com/docs/manual/reference/operator/query/type/ */
const TYPES =
  '.double.string.object.array.binData.undefined.objectId.bool.date.null.regex.dbPointer.javascript.symbol.javascriptWithScope.int.timestamp.long.decimal'.split(
    '.',
  );

const COMPARISONS = new Set(['$eq', '$ne', '$gt', '$gte', '$lt', '$lte']);
const LOGICAL = new Set(['$and', '$or', '$nor']);

/** Whether an object holds operators: its first field begins with `$`, and it is no wrapped value. */
export function isOperators(j: Json): j is JsonObject {
  return (
    typeof j === 'object' &&
    j !== null &&
    !Array.isArray(j) &&
    !isWrapper(j as JsonObject) &&
    Object.keys(j)[0]?.[0] === '$'
  );
}

function list(j: Json): readonly Json[] {
  if (!Array.isArray(j)) throw new Unkeyed('An operator takes a list');
  return j;
}

function whole(j: Json, to: typeof integral = integral): Value {
  const v = value(j);
  if (v.rank !== 10) throw new Unkeyed('An operator takes a number');
  return number(to(v.order as number));
}

function typeName(j: Json): string {
  const code = typeof j === 'string' ? 0 : Number(whole(j).text);
  const name = typeof j === 'string' ? j : code === -1 ? 'minKey' : code === 127 ? 'maxKey' : TYPES[code];
  if (!name || !(TYPES.includes(name) || /^(minKey|maxKey|number)$/.test(name))) {
    throw new Unkeyed('$type of no type');
  }
  return name;
}

function types(j: Json): Value {
  const names = [...new Set((Array.isArray(j) ? j : [j]).map(typeName))].sort();
  if (names.length === 0) throw new Unkeyed('$type of no type');
  return names.length === 1 ? text(names[0] as string) : array(names.map(text));
}

function elementMatch(j: Json): Value {
  if (typeof j !== 'object' || j === null || Array.isArray(j))
    throw new Unkeyed('$elemMatch takes a document');
  const operators = isOperators(j) && !LOGICAL.has(Object.keys(j)[0] as string);
  return operators ? operatorObject(operations(j)) : filterValue(j as JsonObject);
}

/** A member of `$all` may be `{$elemMatch:…}`. */
function allMember(j: Json): Value {
  if (!isOperators(j)) return value(j);
  if (Object.keys(j).join() !== '$elemMatch') throw new Unkeyed('$all of operators');
  return object([['$elemMatch', elementMatch(j.$elemMatch as Json)]]);
}

function inMember(j: Json): Value {
  if (isOperators(j)) throw new Unkeyed('A list of operators');
  return value(j);
}

function not(j: Json): Value {
  const all = operations(j);
  if (!isOperators(j) && all[0]?.[0] !== '$regex') throw new Unkeyed('$not takes operators');
  return operatorObject(all);
}

function bits(j: Json): Value {
  if (Array.isArray(j)) return array(sortedSet(j.map((position: Json) => whole(position))));
  const v = value(j);
  return v.rank === 30 ? v : whole(j); // 30: binary
}

function modulo(j: Json): Value {
  const numbers = list(j).map((n) => whole(n, truncate));
  if (numbers.length !== 2 || numbers[0]?.text === '0') throw new Unkeyed('$mod takes divisor and remainder');
  return array(numbers);
}

function exists(j: Json): Value {
  const v = value(j);
  return bool(j !== null && j !== false && !(v.rank === 10 && v.order === 0)); // 10: number
}

function pattern(j: Json, options: Json | undefined): Value {
  const bare = typeof j === 'string' ? regex(j, '') : value(j);
  const [source, own] = bare.order as [string, string];
  if (bare.rank !== REGEX || (own && options)) throw new Unkeyed('$regex takes a pattern');
  if (typeof (options ?? '') !== 'string') throw new Unkeyed('$options takes a string');
  return regex(source, own || ((options as string) ?? ''));
}

function operand(name: string, j: Json): Value {
  if (COMPARISONS.has(name)) return value(j);
  switch (name) {
    case '$in':
    case '$nin':
      return array(sortedSet(list(j).map(inMember)));
    case '$all':
      return array(sortedSet(list(j).map(allMember)));
    case '$not':
      return not(j);
    case '$elemMatch':
      return elementMatch(j);
    case '$exists':
      return exists(j);
    case '$type':
      return types(j);
    case '$size':
      return whole(j);
    case '$mod':
      return modulo(j);
    case '$bitsAllSet':
    case '$bitsAllClear':
    case '$bitsAnySet':
    case '$bitsAnyClear':
      return bits(j);
    default:
      throw new Unkeyed(`${name} is for the database to decide`);
  }
}

/** What a path's operand says: one operation for a value, one for each operator of an operator object. */
export function operations(j: Json): Operation[] {
  if (!isOperators(j)) {
    const v = value(j);
    return [[v.rank === REGEX ? '$regex' : '$eq', v]];
  }
  const { $options, ...others } = j;
  if ($options !== undefined && others.$regex === undefined) throw new Unkeyed('$options without $regex');
  return Object.entries(others).map(([name, inner]) => [
    name,
    name === '$regex' ? pattern(inner, $options) : operand(name, inner),
  ]);
}

/** Operations of distinct names as an operator object. */
export function operatorObject(all: readonly Operation[]): Value {
  const fields = all.flatMap(([name, v]): [string, Value][] => {
    if (name !== '$regex') return [[name, v]];
    const [source, options] = v.order as [string, string];
    const regexField: [string, Value] = ['$regex', text(source)];
    return options ? [['$options', text(options)], regexField] : [regexField];
  });
  return object(fields.sort(([a], [b]) => compareText(a, b)));
}
