//! Tests of Quorate over real processes
