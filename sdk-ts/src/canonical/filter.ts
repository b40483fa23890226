/**
 * The canonical filter of docs/canonical-form.md: a conjunction of clauses, each a path with one operator or a
 * logical operator over filters. Two filters that can differ in their result never get one text.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { type Operation, operations, operatorObject } from './operand.ts';
import { Unkeyed } from './unkeyed.ts';
import { array, compare, compareText, OBJECT, object, REGEX, sortedSet, type Value } from './value.ts';

/** `path` is empty and `logical` set for `$or` and `$nor`. */
interface Clause {
  readonly logical: boolean;
  readonly path: string;
  readonly operation: Operation;
}

function filters(list: Json): JsonObject[] {
  if (!Array.isArray(list) || list.length === 0 || !list.every(isDocument)) {
    throw new Unkeyed('A logical operator takes filters');
  }
  return list as JsonObject[];
}

function isDocument(j: Json): boolean {
  return typeof j === 'object' && j !== null && !Array.isArray(j);
}

function collect(filter: JsonObject, into: Clause[]): void {
  for (const [name, operand] of Object.entries(filter)) {
    if (name === '$and') {
      for (const member of filters(operand)) collect(member, into);
    } else if (name === '$or' || name === '$nor') {
      const members = filters(operand);
      const distinct = sortedSet(members.map(filterValue));
      if (name === '$or' && distinct.length === 1) collect(members[0] as JsonObject, into);
      else into.push({ logical: true, path: '', operation: [name, array(distinct)] });
    } else if (name[0] !== '$') {
      for (const operation of operations(operand)) into.push({ logical: false, path: name, operation });
    } else if (name !== '$comment') {
      throw new Unkeyed(`${name} is for the database to decide`);
    }
  }
}

/** `{a:{$eq:v}}` is `{a:v}`, unless v would then be read as operators or as a regular expression. */
function pathField(path: string, all: readonly Operation[]): Operation {
  const [name, operand] = all[0] as Operation;
  const first = operand.rank === OBJECT && (operand.order as unknown[])[1];
  const short =
    all.length === 1 &&
    name === '$eq' &&
    operand.rank !== REGEX &&
    !(typeof first === 'string' && first[0] === '$');
  return [path, short ? operand : operatorObject(all)];
}

function field(clause: Clause): Operation {
  return clause.logical ? clause.operation : pathField(clause.path, [clause.operation]);
}

function byPathOperatorOperand(a: Clause, b: Clause): number {
  return (
    compareText(a.path, b.path) ||
    compareText(a.operation[0], b.operation[0]) ||
    compare(a.operation[1], b.operation[1])
  );
}

/** The canonical form of a filter, as a value. */
export function filterValue(filter: JsonObject): Value {
  const clauses: Clause[] = [];
  collect(filter, clauses);
  const distinct = [...new Map(clauses.map((clause) => [object([field(clause)]).text, clause])).values()];
  const paths = new Map<string, Operation[]>();
  const fields: Operation[] = [];
  const rest: Value[] = [];
  for (const clause of distinct.sort(byPathOperatorOperand)) {
    const known = paths.get(clause.path) ?? [];
    // Logical clauses share the slots `$or` and `$nor`, which no path can be called.
    const slot = clause.logical ? fields : known;
    if (slot.some(([name]) => name === clause.operation[0])) rest.push(object([field(clause)]));
    else if (clause.logical) fields.push(clause.operation);
    else paths.set(clause.path, [...known, clause.operation]);
  }
  for (const [path, all] of paths) fields.push(pathField(path, all));
  if (rest.length > 0) fields.push(['$and', array(sortedSet(rest))]);
  return object(fields.sort(([a], [b]) => compareText(a, b)));
}
