//! Tests of Quorate over real processes, and of the shape of the workspace; see `tests/`.
