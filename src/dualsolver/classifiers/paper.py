"""The 20 torchvision classifiers of the paper's table of classifiers, in its order."""

from __future__ import annotations

from typing import NamedTuple

from ..extras import needs

PAPER: dict[str, str] = {  # short name -> name of torchvision's weights
    "vit_h_14": "ViT_H_14_Weights.IMAGENET1K_SWAG_E2E_V1",
    "regnet_y_128gf": "RegNet_Y_128GF_Weights.IMAGENET1K_SWAG_LINEAR_V1",
    "regnet_y_16gf_swag": "RegNet_Y_16GF_Weights.IMAGENET1K_SWAG_LINEAR_V1",
    "convnext_base": "ConvNeXt_Base_Weights.IMAGENET1K_V1",
    "efficientnet_b5": "EfficientNet_B5_Weights.IMAGENET1K_V1",
    "regnet_y_16gf": "RegNet_Y_16GF_Weights.IMAGENET1K_V2",
    "swin_v2_t": "Swin_V2_T_Weights.IMAGENET1K_V1",
    "swin_t": "Swin_T_Weights.IMAGENET1K_V1",
    "regnet_y_32gf": "RegNet_Y_32GF_Weights.IMAGENET1K_V1",
    "regnet_y_8gf": "RegNet_Y_8GF_Weights.IMAGENET1K_V1",
    "regnet_y_3_2gf": "RegNet_Y_3_2GF_Weights.IMAGENET1K_V1",
    "resnet152": "ResNet152_Weights.IMAGENET1K_V1",
    "resnet101": "ResNet101_Weights.IMAGENET1K_V1",
    "regnet_y_800mf": "RegNet_Y_800MF_Weights.IMAGENET1K_V1",
    "mobilenet_v3_large": "MobileNet_V3_Large_Weights.IMAGENET1K_V2",
    "regnet_y_400mf": "RegNet_Y_400MF_Weights.IMAGENET1K_V1",
    "regnet_x_400mf": "RegNet_X_400MF_Weights.IMAGENET1K_V1",
    "mobilenet_v2": "MobileNet_V2_Weights.IMAGENET1K_V1",
    "shufflenet_v2_x1_0": "ShuffleNet_V2_X1_0_Weights.IMAGENET1K_V1",
    "alexnet": "AlexNet_Weights.IMAGENET1K_V1",
}


class PaperClassifier(NamedTuple):
    """A row of the table: ImageNet accuracies in percent, cost of one image, side of the network's input."""

    name: str
    weights: str
    top1: float
    top5: float
    gflops: float
    size: int


def paper_classifiers() -> list[PaperClassifier]:
    """Return the rows of the paper's table, with what torchvision says about each.

    >>> paper_classifiers()[14]  # the paper's own choice
    PaperClassifier(name='mobilenet_v3_large', weights='MobileNet_V3_Large_Weights.IMAGENET1K_V2',
                    top1=75.274, top5=92.566, gflops=0.217, size=224)
    """
    with needs("learn"):
        from torchvision.models import get_weight
    rows = []
    for name, weights in PAPER.items():
        found = get_weight(weights)
        scores = found.meta["_metrics"]["ImageNet-1K"]
        size = found.transforms().crop_size[0]
        rows.append(
            PaperClassifier(name, weights, scores["acc@1"], scores["acc@5"], found.meta["_ops"], size)
        )
    return rows
