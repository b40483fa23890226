//! Lifetimes: how long until an answer is likely to change (Quaestor §5; `docs/consistency.md`). Writes
//! of a record are a Poisson process; a result changes with the first of its members; an observed lifetime
//! is better than a computed one. A wrong estimate costs a revalidation or an invalidation, never freshness.

mod estimate;
mod explain;
mod policy;
mod rate;

pub use estimate::{Estimator, EstimatorLimits};
pub use explain::{Basis, Explained};
pub use policy::{Policy, quantile_ms};
pub use rate::{Decayed, WINDOW_MS, WriteRates};
