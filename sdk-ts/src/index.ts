/** The package's exports, one by one. */
export type { Collection, Database, Item, Items, Options, ReadOptions, RecordOptions } from './client.ts';
export { connect } from './client.ts';
export type { Clock } from './clock.ts';
export type { Mode, Reason } from './decide.ts';
export type { Query } from './key.ts';
export type { Problem } from './problem.ts';
export { FreshetError } from './problem.ts';
export type { Meta } from './read.ts';
export type { Fetch } from './state.ts';
export type { Document, WriteOptions, Written } from './write.ts';
