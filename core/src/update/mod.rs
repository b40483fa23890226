//! Update operators and merge patches, applied to raw BSON.
