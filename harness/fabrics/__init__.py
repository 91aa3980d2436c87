"""Fabric profiles: one YAML file per fabric; `busbw.playbook` and `busbw.launch.env` read them."""
