//! The driver's errors, as the port names them. Codes are MongoDB's own (`error_codes.yml`).

use mongodb::error::{Error, ErrorKind, WriteFailure};

use super::super::port::StoreError;

/// Why an operation failed, before it is translated: a transaction has to see the driver's labels.
pub(super) enum Failed {
    /// The driver's or the server's word.
    Driver(Error),
    /// Ours, before asking.
    Ours(StoreError),
}

impl Failed {
    pub(super) fn has_label(&self, label: &str) -> bool {
        matches!(self, Failed::Driver(error) if error.contains_label(label))
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        Failed::Ours(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Driver(error)
    }
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> StoreError {
        match failed {
            Failed::Driver(error) => translate(error),
            Failed::Ours(error) => error,
        }
    }
}

/// Translates an error of the driver.
#[allow(clippy::needless_pass_by_value)] // The shape `map_err` wants.
pub(super) fn translate(error: Error) -> StoreError {
    match &*error.kind {
        ErrorKind::Command(command) => from_code(command.code, &command.message),
        ErrorKind::Write(WriteFailure::WriteError(write)) => from_code(write.code, &write.message),
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => {
            unacknowledged(&concern.message)
        }
        ErrorKind::InsertMany(many) => match (&many.write_errors, &many.write_concern_error) {
            (Some(errors), _) if !errors.is_empty() => {
                from_code(errors[0].code, &errors[0].message)
            }
            (_, Some(concern)) => unacknowledged(&concern.message),
            _ => StoreError::Internal("an insertion failed without a reason".to_owned()),
        },
        ErrorKind::Io(_)
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::Shutdown => StoreError::Unavailable(error.to_string()),
        ErrorKind::Authentication { .. } => StoreError::Forbidden(error.to_string()),
        ErrorKind::InvalidArgument { message, .. } if message.contains("too large") => {
            StoreError::TooLarge
        }
        ErrorKind::InvalidArgument { message, .. } => StoreError::BadRequest(message.clone()),
        ErrorKind::IncompatibleServer { message, .. } | ErrorKind::Transaction { message, .. } => {
            StoreError::Unsupported(message.clone())
        }
        ErrorKind::SessionsNotSupported => {
            StoreError::Unsupported("the deployment has no sessions".to_owned())
        }
        _ => StoreError::Internal(error.to_string()),
    }
}

/// Written, but not by a majority in time: whether it stays is not known.
fn unacknowledged(message: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "no majority acknowledged the write in time, its outcome is unknown: {message}"
    ))
}

fn from_code(code: i32, message: &str) -> StoreError {
    match code {
        // DuplicateKey, and its ancestors.
        11000 | 11001 | 12582 => duplicate(message),
        // DocumentValidationFailure
        121 => StoreError::Rejected,
        // MaxTimeMSExpired, ExceededTimeLimit, NetworkInterfaceExceededTimeLimit, LockTimeout
        50 | 262 | 202 | 24 => StoreError::Timeout(message.to_owned()),
        // WriteConflict, NoSuchTransaction
        112 | 251 => StoreError::Conflict,
        // Unauthorized, AuthenticationFailed
        13 | 18 => StoreError::Forbidden(message.to_owned()),
        // BSONObjectTooLarge; a document too large after an update; in an insert
        10334 | 17419 | 17420 => StoreError::TooLarge,
        // HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress, PrimarySteppedDown,
        // SocketException, NotWritablePrimary, InterruptedAtShutdown, InterruptedDueToReplStateChange,
        // NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary, ReadConcernMajorityNotAvailableYet
        6 | 7 | 89 | 91 | 189 | 9001 | 10107 | 11600 | 11602 | 13435 | 13436 | 134 => {
            StoreError::Unavailable(message.to_owned())
        }
        // CommandNotSupported, CommandNotSupportedOnView, IllegalOperation ("… only allowed on a replica set
        // member"), NotImplemented
        115 | 166 | 20 | 238 => StoreError::Unsupported(message.to_owned()),
        code if is_askers_fault(code) => {
            if message.contains("too large") {
                StoreError::TooLarge
            } else {
                StoreError::BadRequest(message.to_owned())
            }
        }
        code => StoreError::Internal(format!("{message} (code {code})")),
    }
}

/// Which unique index a duplicate key is in: only the message says.
fn duplicate(message: &str) -> StoreError {
    if message.contains("index: _id_ ") {
        StoreError::DuplicateId
    } else {
        StoreError::DuplicateValue
    }
}

/// Codes that say the filter, the operators or the document make no sense: BadValue, FailedToParse,
/// TypeMismatch, Overflow, InvalidLength, CannotCreateIndex … the update family (28 PathNotViable,
/// 40 ConflictingUpdateOperators, 52 DollarPrefixedFieldName, 53 InvalidIdField, 54 NotSingleValueField,
/// 55 InvalidDBRef, 56 EmptyFieldName, 57 DottedFieldName, 66 ImmutableField, 72 InvalidOptions,
/// 73 InvalidNamespace, 103 InvalidPath …), 291 NoQueryExecutionPlans, and the numbered user assertions.
fn is_askers_fault(code: i32) -> bool {
    matches!(
        code,
        2 | 9 | 14 | 15 | 16 | 28 | 40 | 52..=57 | 66 | 72 | 73 | 168 | 241 | 291 | 292 | 40415
    ) || (10_000..=99_999).contains(&code)
        || code >= 1_000_000
}
