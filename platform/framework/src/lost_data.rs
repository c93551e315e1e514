//! What an operator is told about a replica whose data is lost.

/// What can be done in this version about a replica whose data is lost: a clause for the end of a message. It is said by everything that
/// refuses such a replica, and only here, so that it changes in one place when membership change exists.
pub const LOST_DATA: &str = "a replica whose data is lost cannot come back in this version (membership change is not built yet); \
     the others go on without it as long as they are a majority";
