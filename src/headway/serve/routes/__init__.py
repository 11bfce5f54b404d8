"""The endpoints, one module per noun; `headway.serve.app.MODULES` lists them."""
