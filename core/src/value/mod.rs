//! Values: BSON order and equality as MongoDB has them, dotted paths, Extended JSON.
