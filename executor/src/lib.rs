//! The key-value state machine: commands, sessions, ordered stores, overlays, digests
