//! The order in which documents go through a pipeline. MongoDB leaves it open where no `$sort` says it; equal
//! requests must give equal bytes, so the plan says it wherever the answer shows it.
//!
//! The rules: documents come in `_id` order, groups leave `$group` in the order of their `_id`, joined documents
//! are in `_id` order, and a `$sort` takes the `_id` for what it leaves open. Each only where it can be seen: nothing
//! is sorted for a sum. After `$unwind`, or once `_id` is gone, a `$sort` has nothing left to break its ties with; what is
//! made of that order is [`Plan::order_matters`].

use bson::RawDocumentBuf;

use super::{ANSWER_DOCUMENTS_MAX, Field, Mode, Pipeline, Reshape, Sort, Stage, Tie, write};

/// A pipeline as it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    stages: Vec<Stage>,
    order_matters: bool,
}

impl Plan {
    /// The stages, those that say the order included; the last lets one document more through than an answer
    /// may have.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// What the database is given.
    #[must_use]
    pub fn documents(&self) -> Vec<RawDocumentBuf> {
        write::all(&self.stages)
    }
}

impl Pipeline {
    /// How it is run.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut planner = Planner {
            order_matters: false,
        };
        let mut stages = planner.plan(&self.stages, Rows::stored(), true);
        let bounded = stages.last().is_some_and(is_bounded);
        if !bounded {
            stages.push(Stage::Limit(u64::from(ANSWER_DOCUMENTS_MAX) + 1));
        }
        Plan {
            stages,
            order_matters: planner.order_matters,
        }
    }

    /// The most documents that its answer can show, the arrays of a `$facet` counted by the largest, as far as the
    /// last stages say it.
    #[must_use]
    pub fn documents_max(&self) -> Option<u64> {
        documents_max(&self.stages)
    }

    /// Whether the answer can depend on an order that nothing defines. It is not cached then.
    #[must_use]
    pub fn order_matters(&self) -> bool {
        self.plan().order_matters
    }
}

/// Whether it lets no more documents through than an answer may have.
fn is_bounded(stage: &Stage) -> bool {
    match stage {
        Stage::Limit(n) => *n <= u64::from(ANSWER_DOCUMENTS_MAX),
        Stage::Count(_) | Stage::Facet(_) => true,
        _ => false,
    }
}

fn documents_max(stages: &[Stage]) -> Option<u64> {
    match stages.last()? {
        Stage::Limit(n) => Some(*n),
        Stage::Count(_) => Some(1),
        Stage::Group(group) if group.id.is_constant() => Some(1),
        Stage::Facet(branches) => {
            let most = branches.iter().map(|(_, stages)| documents_max(stages));
            most.collect::<Option<Vec<u64>>>()?.into_iter().max()
        }
        // They let through as many as come.
        Stage::Reshape(_) | Stage::Sort(_) | Stage::Match(_) | Stage::Lookup(_) => {
            documents_max(&stages[..stages.len() - 1])
        }
        Stage::Skip(_) | Stage::Group(_) | Stage::Unwind(_) => None,
    }
}

/// What is known of the documents between two stages.
#[derive(Clone, Copy)]
struct Rows {
    /// What tells any two of them apart.
    tie: Tie,
    /// There is one at most.
    single: bool,
}

impl Rows {
    fn stored() -> Rows {
        Rows {
            tie: Tie::Id,
            single: false,
        }
    }

    fn single() -> Rows {
        Rows {
            tie: Tie::Open,
            single: true,
        }
    }

    /// What is known after a stage.
    fn after(self, stage: &Stage) -> Rows {
        match stage {
            Stage::Reshape(reshape) if !keeps_id(reshape) => Rows {
                tie: Tie::Open,
                ..self
            },
            Stage::Unwind(_) => Rows {
                tie: Tie::Open,
                single: false,
            },
            Stage::Group(group) if group.id.is_constant() => Rows::single(),
            Stage::Group(group) => Rows {
                tie: match group.id.may_be_array() {
                    true => Tie::WholeId,
                    false => Tie::Id,
                },
                single: false,
            },
            Stage::Limit(1) | Stage::Count(_) | Stage::Facet(_) => Rows {
                single: true,
                ..self
            },
            _ => self,
        }
    }
}

/// Whether `_id` is afterwards what it was.
fn keeps_id(reshape: &Reshape) -> bool {
    let id = reshape.fields.0.iter().find(|(name, _)| &**name == "_id");
    match (reshape.mode, id.map(|(_, field)| field)) {
        (Mode::Include, Some(Field::Named)) | (Mode::Exclude | Mode::Set, None) => true,
        (Mode::Include | Mode::Exclude | Mode::Set, _) => false,
    }
}

struct Planner {
    order_matters: bool,
}

impl Planner {
    /// `begins`: these documents have not been brought into an order yet.
    fn plan(&mut self, stages: &[Stage], start: Rows, begins: bool) -> Vec<Stage> {
        let mut planned = Vec::new();
        let mut rows = start;
        let mut unordered = begins;
        for (at, stage) in stages.iter().enumerate() {
            // Filters stay first, where an index may serve them.
            if unordered && !matches!(stage, Stage::Match(_)) {
                planned.extend(sorted_if_seen(&stages[at..], rows));
                unordered = false;
            }
            match stage {
                Stage::Sort(sort) => planned.push(self.sort(sort, rows, &stages[at + 1..])),
                Stage::Facet(branches) => {
                    let branches = branches
                        .iter()
                        .map(|(name, stages)| (name.clone(), self.plan(stages, rows, false)));
                    planned.push(Stage::Facet(branches.collect()));
                }
                stage => planned.push(stage.clone()),
            }
            rows = rows.after(stage);
            if matches!(stage, Stage::Group(_)) {
                planned.extend(sorted_if_seen(&stages[at + 1..], rows));
            }
        }
        if unordered {
            planned.extend(sorted_if_seen(&[], rows));
        }
        planned
    }

    fn sort(&mut self, sort: &Sort, rows: Rows, rest: &[Stage]) -> Stage {
        let by_id = sort.fields.iter().any(|(path, _)| &**path == "_id");
        let tie = match rows.tie {
            Tie::Id if by_id => return Stage::Sort(sort.clone()),
            tie => tie,
        };
        if tie == Tie::Open && !rows.single && shows_order(rest) {
            self.order_matters = true;
        }
        Stage::Sort(Sort {
            fields: sort.fields.clone(),
            tie,
        })
    }
}

/// The `$sort` that the documents need before `rest`, if any.
fn sorted_if_seen(rest: &[Stage], rows: Rows) -> Option<Stage> {
    let needed = !rows.single && rows.tie != Tie::Open && shows_order(rest);
    needed.then(|| {
        Stage::Sort(Sort {
            fields: Vec::new(),
            tie: rows.tie,
        })
    })
}

/// Whether the order in which documents come to `rest` shows in what it answers.
fn shows_order(rest: &[Stage]) -> bool {
    for stage in rest {
        match stage {
            // It makes its own, or is said to leave it open.
            Stage::Sort(_) | Stage::Count(_) => return false,
            Stage::Group(group) => {
                return group.fields.iter().any(|(_, a, _)| a.is_ordered());
            }
            Stage::Limit(_) | Stage::Skip(1..) => return true,
            Stage::Facet(branches) => {
                return branches.iter().any(|(_, stages)| shows_order(stages));
            }
            Stage::Match(_)
            | Stage::Reshape(_)
            | Stage::Unwind(_)
            | Stage::Lookup(_)
            | Stage::Skip(0) => {}
        }
    }
    true
}
