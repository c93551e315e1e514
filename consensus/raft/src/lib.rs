//! Raft as a pure state machine behind the consensus seam of quorate-framework
