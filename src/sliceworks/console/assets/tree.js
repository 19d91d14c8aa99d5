// Draws nodes that the server sends. Vue compares them with the last ones and touches only what differs.
import { h } from "vue";

const draw = (node) => {
  if (typeof node === "string") return node;
  const [tag, attributes, ...children] = node;
  return h(tag, attributes, children.map(draw));
};

export default {
  props: { tree: { type: Array, default: () => [] } },
  render() {
    return h("div", { class: "tree", onClick: this.click }, this.tree.map(draw));
  },
  methods: {
    click(event) {
      const pressed = event.target.closest("[data-act]");
      if (pressed && !pressed.disabled) this.$emit("act", pressed.dataset.act);
    },
  },
};
