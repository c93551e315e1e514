//! The JSON configuration of a Quorate cluster: types, limits, validation, schema
