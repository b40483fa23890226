/**
 * Operators of a path and their operands in canonical form ("Operands" of docs/canonical-form.md).
 */
import type { Json } from '../ejson.ts';
import { filterValue } from './filter.ts';
import { BINARY, leaf, NUMBER, need, REGEX, type Value } from './leaf.ts';
import { long, SCALE } from './number.ts';
import { sortedSet } from './order.ts';
import { array, isDocument, isOperators, object, regex, string, value } from './value.ts';

/** An operator's name and operand. The operand of `$regex` is a regular expression, options included. */
export type Operation = readonly [name: string, operand: Value];

/** BSON types by their number; `number` is several. https://www.mongodb.com/docs/manual/reference/operator/query/type/ */
const TYPES: { readonly [code: string]: string } = {
  ...('number,double,string,object,array,binData,undefined,objectId,bool,date,null,regex,dbPointer,javascript,symbol,javascriptWithScope,int,timestamp,long,decimal'.split(
    ',',
  ) as object),
  '-1': 'minKey',
  127: 'maxKey',
};

/** A number as an integer of 64 bits; one with a fraction only where it is to be truncated. */
const whole = (j: Json, truncated?: boolean): Value => {
  const [[rank, order]] = value(j) as readonly [readonly [number, bigint], string];
  // BigInt division truncates, and refuses what is not finite.
  need(rank === NUMBER && (truncated || !(order % SCALE)));
  return long(order / SCALE);
};

const set = (member: (j: Json) => Value) => (j: Json) => array(sortedSet((j as Json[]).map(member)));

const typeName = (j: Json): Value => {
  const name = typeof j === 'string' ? j : TYPES[+whole(j)[1] || ''];
  need(Object.values(TYPES).includes(name as string));
  return string(name as string);
};

const types = (j: Json): Value => {
  const names = sortedSet([j].flat().map(typeName));
  need(names[0]);
  return names[1] ? array(names) : names[0];
};

const elementMatch = (j: Json): Value => {
  need(isDocument(j));
  return isOperators(j) && !/^\$(and|n?or|comment)$/.test(Object.keys(j)[0] as string)
    ? operatorObject(operations(j))
    : filterValue(j);
};

/** A member of `$all` may be `{$elemMatch:…}`. */
const allMember = (j: Json): Value => {
  if (!isOperators(j)) return value(j);
  need(Object.keys(j).join() === '$elemMatch');
  return operatorObject(operations(j));
};

const inMember = (j: Json): Value => {
  need(!isOperators(j));
  return value(j);
};

const not = (j: Json): Value => {
  const all = operations(j);
  need(isOperators(j) || all[0]?.[0] !== '$eq');
  return operatorObject(all);
};

const bits = (j: Json): Value => {
  if (Array.isArray(j)) return set((n) => whole(n))(j);
  const v = value(j);
  return v[0][0] === BINARY ? v : whole(j);
};

const modulo = (j: Json): Value => {
  const numbers = (j as Json[]).map((n) => whole(n, true));
  need(numbers.length === 2 && numbers[0]?.[0][1]);
  return array(numbers);
};

const exists = (j: Json): Value => leaf(40, !/^(null|false|0)$/.test(value(j)[1]));

const pattern = (j: Json, options: Json): Value => {
  const [[rank, within]] = typeof j === 'string' ? regex(j, '') : value(j);
  const [source, own] = within as readonly [string, string];
  need(rank === REGEX && typeof options === 'string' && !(own && options));
  return regex(source, own || options);
};

const OPERANDS: { readonly [name: string]: (j: Json) => Value } = {
  $eq: value,
  $ne: value,
  $gt: value,
  $gte: value,
  $lt: value,
  $lte: value,
  $in: set(inMember),
  $nin: set(inMember),
  $all: set(allMember),
  $not: not,
  $elemMatch: elementMatch,
  $exists: exists,
  $type: types,
  $size: (j) => whole(j),
  $mod: modulo,
  $bitsAllSet: bits,
  $bitsAllClear: bits,
  $bitsAnySet: bits,
  $bitsAnyClear: bits,
};

/** What a path's operand says: one operation for a value, one for each operator of an operator object. */
export const operations = (j: Json): Operation[] => {
  if (!isOperators(j)) {
    const v = value(j);
    return [[v[0][0] === REGEX ? '$regex' : '$eq', v]];
  }
  const { $options, ...others } = j;
  need('$regex' in others || $options === undefined);
  return Object.entries(others).map(([name, inner]) => {
    if (name === '$regex') return [name, pattern(inner, $options ?? '')];
    // What an object inherits has other names; an operator that is not here cannot be called.
    need(name[0] === '$');
    return [name, (OPERANDS[name] as typeof value)(inner)];
  });
};

/** Operations of distinct names as an operator object. */
export const operatorObject = (all: readonly Operation[]): Value => {
  const fields = all.flatMap(([name, v]): Operation[] => {
    if (name !== '$regex') return [[name, v]];
    const [source, options] = v[0][1] as readonly [string, string];
    const regexField: Operation = [name, string(source)];
    return options ? [['$options', string(options)], regexField] : [regexField];
  });
  return object(sortedSet(fields));
};
