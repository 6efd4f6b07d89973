// Carries the precompiled header; see torch.h.
